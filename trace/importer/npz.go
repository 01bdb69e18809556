package importer

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sbinet/npyio/npy"

	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/parquet"
)

// npzNames are the entries of an .npz that are read: the lists, then three scalars.
var npzNames = []string{"topk_indices.npy", "prompt_len.npy", "output_len.npy", "slot_ctx0.npy"}

// npzArrays is the content of an .npz: the lists as (steps, layers, topk) and three scalars.
type npzArrays struct {
	indices             []int32
	steps, layers, topk int
	prompt, output      int // tokens in the prompt and in the completion
	context0            int // slot_ctx0: tokens in the cache before row 0, which is the position of row 0
}

// Missing returns an error that lists the flags of the options that a source of format f needs and o
// lacks. It returns nil if none is missing.
func (o *Options) Missing(f Format) error {
	var flags []string
	if f == NPZ && o.RequestID == "" {
		flags = append(flags, "--request-id ID")
	}
	if f == NPZ && o.Meta.Order == "" {
		flags = append(flags, "--order rank (best first) or index (no order)")
	}
	if flags == nil {
		return nil
	}
	return fmt.Errorf("%v does not state all facts: add %s", f, strings.Join(flags, " and "))
}

// decodeNPZ reads the arrays of one request into memory.
func decodeNPZ(s *source, c *collector) error {
	if err := c.opts.Missing(NPZ); err != nil {
		return err
	}
	file, size, err := s.randomAccess()
	if err != nil {
		return err
	}
	a, ignored, err := readNPZ(stoppable{c.ctx, file}, size, c.opts.wholeLimit())
	if err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return err
	}
	for _, name := range ignored {
		c.warn("%s: array %s is ignored", s.path, name)
	}
	return a.add(s, c)
}

// add adds the records. Row t is the query at position slot_ctx0 + t.
func (a *npzArrays) add(s *source, c *collector) error {
	rec := record{request: c.opts.RequestID, head: trace.NoHead}
	for t := range a.steps {
		rec.at, rec.seqLen = int64(t), int32(a.context0+t+1)
		rec.step = int32(a.context0 - a.prompt + t)
		for layer := range a.layers {
			rec.layer = int32(layer)
			at := (t*a.layers + layer) * a.topk
			rec.indices = append(rec.indices[:0], a.indices[at:at+a.topk]...)
			if err := c.add(s, &rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// check compares the scalars with each other and with the lists.
func (a *npzArrays) check() error {
	last := a.context0 - a.prompt + a.steps - 1
	switch {
	case a.prompt < 0 || a.output < 0 || a.context0 < 0 || max(a.prompt, a.output, a.context0) > 1<<30:
		return fmt.Errorf("prompt_len %d, output_len %d, slot_ctx0 %d, expected 0 to 2^30", a.prompt, a.output, a.context0)
	case last >= a.output:
		return fmt.Errorf("topk_indices has %d rows from step %d (slot_ctx0 %d − prompt_len %d), so its last is step %d, but output_len is %d", a.steps, a.context0-a.prompt, a.context0, a.prompt, last, a.output)
	}
	row := a.layers * a.topk
	for t := range a.steps {
		if x := slices.Max(a.indices[t*row : (t+1)*row]); int(x) > a.context0+t {
			return fmt.Errorf("row %d selects position %d, but by slot_ctx0 %d its query is at position %d, expected none beyond it", t, x, a.context0, a.context0+t)
		}
	}
	return nil
}

// stoppable is a file whose reads fail after a context ends.
type stoppable struct {
	ctx  context.Context
	file io.ReaderAt
}

// ReadAt reads from the file.
func (s stoppable) ReadAt(p []byte, at int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.file.ReadAt(p, at)
}

// readNPZ reads the arrays from a zip archive of size bytes, which may unpack to at most limit
// bytes. It also returns the names of the entries that it skips.
func readNPZ(file io.ReaderAt, size, limit int64) (*npzArrays, []string, error) {
	z, err := zip.NewReader(file, size)
	if err != nil {
		return nil, nil, fmt.Errorf("not a complete zip archive (cut off? its directory is at the end): copy or make it again: %w", err)
	}
	total := uint64(0)
	var names, ignored []string
	for _, f := range z.File {
		names = append(names, f.Name)
		if !slices.Contains(npzNames, f.Name) {
			ignored = append(ignored, f.Name)
		}
		if total += f.UncompressedSize64; total > uint64(limit) || f.UncompressedSize64 > uint64(limit) {
			return nil, nil, fmt.Errorf("unpacks to more than %d bytes, a quarter of the memory budget: raise --memory", limit)
		}
	}
	a := &npzArrays{}
	for i, scalar := range []*int{nil, &a.prompt, &a.output, &a.context0} {
		name := npzNames[i]
		at := slices.Index(names, name)
		if at < 0 {
			return nil, nil, fmt.Errorf("has no array %s; found %v, expected %v", name, names, npzNames)
		}
		values, shape, err := readArray(z.File[at])
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		case scalar != nil && len(values) != 1:
			return nil, nil, fmt.Errorf("%s has %d values, expected one", name, len(values))
		case scalar != nil:
			*scalar = int(values[0])
		case len(shape) != 3 || len(values) == 0:
			return nil, nil, fmt.Errorf("topk_indices has shape %v, expected (steps, layers, topk), none 0", shape)
		default:
			a.indices, a.steps, a.layers, a.topk = values, shape[0], shape[1], shape[2]
		}
	}
	return a, ignored, nil
}

// readArray reads an integer array as int32, with its shape. It reads all bytes first, to check the
// zip's checksum and the size of the array. npyio would read zeros from a truncated entry.
func readArray(f *zip.File) (values []int32, shape []int, err error) {
	r, err := f.Open()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, err
	}
	err = parquet.Guard(func() error {
		body := bytes.NewReader(raw)
		r, err := npy.NewReader(body)
		if err != nil {
			return err
		}
		shape = r.Header.Descr.Shape
		values, err = readInts(r, body.Len())
		return err
	})
	return values, shape, err
}

// readInts reads the values. The number of bytes must match the header.
func readInts(r *npy.Reader, have int) ([]int32, error) {
	h := r.Header.Descr
	if h.Fortran && len(h.Shape) > 1 {
		return nil, errors.New("is in Fortran order, expected C order: save numpy.ascontiguousarray of it")
	}
	width := map[string]int{"<i4": 4, "<i8": 8}[h.Type]
	if width == 0 {
		return nil, fmt.Errorf("has type %q, expected <i4 or <i8: save its .astype(numpy.int32)", h.Type)
	}
	n := 1
	for _, d := range h.Shape {
		if d < 0 || d > 0 && n > math.MaxInt/8/d {
			return nil, fmt.Errorf("has shape %v: the array is damaged", h.Shape)
		}
		n *= d
	}
	if n*width != have {
		return nil, fmt.Errorf("has %d bytes of values, but its shape %v of %s needs %d: the array is damaged or cut off", have, h.Shape, h.Type, n*width)
	}
	values := make([]int32, n)
	if n == 0 {
		return nil, nil
	}
	if width == 4 {
		return values, r.Read(&values)
	}
	wide := make([]int64, n)
	if err := r.Read(&wide); err != nil {
		return nil, err
	}
	for i, v := range wide {
		if values[i] = int32(v); int64(values[i]) != v {
			return nil, fmt.Errorf("value %d at %d, expected one that int32 holds", v, i)
		}
	}
	return values, nil
}
