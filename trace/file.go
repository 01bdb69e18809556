package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/trace/parquet"
)

// File is an open trace: its metadata and the directory of its streams. It is safe for concurrent
// use if each goroutine reads through its own Reader.
type File struct {
	path    string
	source  io.ReaderAt
	closer  io.Closer
	parquet *parquet.File
	size    int64
	leaves  [NumColumns]*parquet.Leaf // nil if the file lacks the column
	present [NumColumns]bool          // optional columns that hold values
	meta    Meta
	digest  string
	sealed  bool // metadata and digest have a seal
	crc     bool // every page that was read has a CRC
	opened  bool // Open has decided whether the digest is needed
	ahead   bool // Open requests the first lists of an object
	late    func() error
	streams []StreamInfo
	sparse  map[int][]int32 // step numbers of streams that skip steps
	keys    []func() error  // by row group: compares its key columns with the stream index, if one is used
	indices int64

	unchanged unchanged
}

// Open opens the trace at path, a file or an s3://bucket/key. It checks the schema, the metadata and
// its seal, the key order and seq_len, but no lists. A Reader checks the header and the CRC of each
// page that it reads. A file without CRCs, or with a digest but no seal, is verified against its
// digest, once. A file with neither CRCs nor a digest is an error.
func Open(path string) (*File, error) { return OpenContext(context.Background(), path) }

// OpenContext is Open with a context that ends the requests of opening to an object store. It has no
// effect on files.
func OpenContext(ctx context.Context, path string) (*File, error) {
	return openContext(ctx, path, false)
}

// OpenAhead is OpenContext for a trace whose first streams will be read. It requests the first lists of an
// object in an object store together with the keys, at most 4 MiB of them. It has no effect on files.
func OpenAhead(ctx context.Context, path string) (*File, error) { return openContext(ctx, path, true) }

func openContext(ctx context.Context, path string, ahead bool) (*File, error) {
	f, err := open(ctx, path, ahead, nil)
	if err != nil {
		return nil, err
	}
	if err := f.finish(); err != nil {
		f.Close()
		return nil, err
	}
	if o, ok := f.source.(*storage.Object); ok {
		o.Detach()
	}
	return f, nil
}

// finish verifies the file against its digest, if the pages that were read so far need it.
func (f *File) finish() error {
	f.late = sync.OnceValue(f.verifyDigest)
	f.opened = true
	if f.crc && (f.sealed || f.digest == "") {
		return nil
	}
	return f.verifyDigest()
}

// unsummed is called for a page without a CRC. It verifies the file against its digest, once. Until
// the file is open, it only notes the page.
func (f *File) unsummed() error {
	if !f.opened {
		f.crc = false
		return nil
	}
	if !f.crc {
		return nil // finish has verified the file
	}
	return f.late()
}

// OpenReader opens the trace in the first size bytes of r. Messages name it path. Close does not
// close r.
func OpenReader(path string, r io.ReaderAt, size int64) (*File, error) {
	f := &File{path: path, source: r, closer: io.NopCloser(nil), size: size}
	if err := f.loadGuarded(nil); err != nil {
		return nil, err
	}
	if err := f.finish(); err != nil {
		return nil, err
	}
	return f, nil
}

// open opens path. With report it compares all page headers with the footer, and passes broken key
// and seq_len rules to report. If report is nil, the first one is the error.
func open(ctx context.Context, path string, ahead bool, report func(*Error) bool) (*File, error) {
	switch {
	case !storage.IsURL(path):
		return openFile(path, path, report)
	case report == nil:
		return openURL(ctx, path, ahead)
	}
	return openCopy(ctx, path, report)
}

// openFile opens the file at path. Messages call it name.
func openFile(path, name string, report func(*Error) bool) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	if info.IsDir() {
		return nil, fileError(path, RuleFile, "%w", ErrFolder)
	}
	if !info.Mode().IsRegular() {
		return nil, fileError(path, RuleFile, files.NotRegular)
	}
	if info.Size() == 0 {
		return nil, fileError(name, RuleFile, "is empty, expected a trace (Parquet)")
	}
	file, err := os.Open(path)
	if errors.Is(err, syscall.EMFILE) {
		return nil, fmt.Errorf("open trace: %w (raise `ulimit -n`, or name fewer traces per command with the same --out)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	f := &File{path: name, source: file, closer: file, size: info.Size()}
	f.unchanged.file = file
	if f.unchanged.last, err = lastWritten(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("open trace: %w", err)
	}
	if err := f.loadGuarded(report); err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// loadGuarded calls load and turns panics of the decoder into errors.
func (f *File) loadGuarded(report func(*Error) bool) (err error) {
	if p := parquet.Guard(func() error { err = f.load(report); return nil }); p != nil {
		return f.corrupt(p)
	}
	return err
}

func (f *File) load(report func(*Error) bool) (err error) {
	if f.parquet, err = parquet.Open(f.source, f.size); err != nil {
		return cmp.Or(f.checkMagic(), f.corrupt(err)) // it may be no Parquet file at all
	}
	if err := f.bindColumns(); err != nil {
		return f.foreign(err)
	}
	if err := f.bindMetadata(); err != nil {
		return f.foreign(err)
	}
	if err := f.checkParquet(report != nil); err != nil {
		return f.corrupt(err)
	}
	if err := f.checkMagic(); err != nil {
		return err
	}
	if err := f.probeOptional(); err != nil {
		return f.corrupt(err)
	}
	if f.keys != nil {
		return nil
	}
	return f.readDirectory(report)
}

// checkParquet checks the footer, and compares all page headers with it if all is true. Otherwise
// each page is checked when it is read.
func (f *File) checkParquet(all bool) (err error) {
	f.crc, f.parquet.Unsummed = true, f.unsummed
	if !all {
		f.useIndex()
		f.expectOpening()
		return f.parquet.CheckFooter()
	}
	f.crc, err = f.parquet.CheckPages(false)
	return err
}

func (f *File) checkMagic() error {
	begin := make([]byte, len(parquet.Magic))
	if _, err := f.source.ReadAt(begin, 0); storage.Unread(err) {
		return f.corrupt(err)
	} else if err != nil && err != io.EOF {
		return fmt.Errorf("open trace: %w", err)
	}
	if string(begin) != parquet.Magic {
		return fileError(f.path, RuleFile, "is not a Parquet file. %w", ErrForeign)
	}
	return nil
}

// probeOptional looks at the first row of every optional column.
func (f *File) probeOptional() (err error) {
	first := slices.IndexFunc(f.parquet.RowGroups(), hasRows)
	for c := ColScores; c < NumColumns && first >= 0; c++ { // a file without rows is an error of the directory
		if f.leaves[c] != nil {
			if f.present[c], err = f.parquet.FirstPresent(first, f.leaves[c]); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasRows(g parquetgo.RowGroup) bool { return g.NumRows() > 0 }

// corrupt turns a read error into an error of the file's content. Errors of the file system keep
// their cause.
func (f *File) corrupt(err error) error {
	if errors.As(err, new(syscall.Errno)) || storage.Unread(err) || errors.Is(err, parquet.ErrCodec) {
		return fileError(f.path, RuleFile, "cannot be read: %w", err)
	}
	return fileError(f.path, RuleFile, "truncated or corrupt Parquet file, copy or make it again: %w", err)
}

// Close closes the file.
func (f *File) Close() error { return f.closer.Close() }

// Path returns the path that the file was opened with.
func (f *File) Path() string { return f.path }

// Meta returns the file's metadata.
func (f *File) Meta() *Meta { return &f.meta }

// StoredDigest returns the digest that the file states, or "" if it states none.
func (f *File) StoredDigest() string { return f.digest }

// Digest returns the digest of content and metadata. If the file states none, Digest computes it by
// reading everything.
func (f *File) Digest() (string, error) {
	if f.digest != "" {
		return f.digest, nil
	}
	return f.ComputeDigest()
}

// Streams returns the directory in key order. Callers must not change it.
func (f *File) Streams() []StreamInfo { return f.streams }

// RowGroups returns the number of row groups.
func (f *File) RowGroups() int { return len(f.parquet.RowGroups()) }

// Indices returns the number of indices in all lists. It is an upper bound if some lists are null.
func (f *File) Indices() int64 { return f.indices }

// HasScores reports whether the rows of the file have scores. Either all rows have them or none.
func (f *File) HasScores() bool { return f.Has(ColScores) }

// HasCoveredMass reports whether the file records the share of the attention that its lists hold.
func (f *File) HasCoveredMass() bool { return f.Has(ColCoveredMass) }

// HasPredicted reports whether the file has predicted lists.
func (f *File) HasPredicted() bool { return f.Has(ColPredicted) }

// HasAttentionMass reports whether the file has attention masses.
func (f *File) HasAttentionMass() bool { return f.Has(ColAttentionMass) }

// HasPromptMass reports whether the file records the attention mass that the windows gave each
// block of the prompt.
func (f *File) HasPromptMass() bool { return f.Has(ColPromptMass) }

// Has reports whether an optional column holds values. It looks at the first row. The reader checks
// that the other rows agree.
func (f *File) Has(column int) bool { return f.present[column] }

// unchanged records when the open file was last written to.
type unchanged struct {
	mu   sync.Mutex
	file *os.File // nil if the trace is not a file
	last written
}

// Unchanged returns an error if the file was written to since it was opened and its content no
// longer has this digest. Bytes read in between may be from either version. Another file that took
// its name does not matter.
func (f *File) Unchanged(digest string) error {
	u := &f.unchanged
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.file == nil {
		return nil
	}
	now, err := lastWritten(u.file)
	if err != nil {
		return fileError(f.path, RuleFile, "%w", err)
	}
	if now == u.last {
		return nil
	}
	if got, err := f.ComputeDigest(); err != nil || got != digest {
		return fileError(f.path, RuleFile, "was changed while kvreplay read it, expected %s to the end. Run again when no program writes to it", digest)
	}
	u.last = now
	return nil
}
