package trace

import (
	"context"
	"fmt"

	"github.com/kvreplay/kvreplay/internal/storage"
)

// ComputeDigest reads every column of every stream, applies every rule and returns the digest of
// the content.
func (f *File) ComputeDigest() (string, error) { return f.computeDigest(false) }

// computeDigest is ComputeDigest. With trust it does not ask for the CRC of pages, because the
// caller compares the digest.
func (f *File) computeDigest(trust bool) (string, error) {
	f.expectBytes()
	r := f.NewReader(ReadAll)
	defer r.Close()
	r.trust = trust
	d := NewDigester()
	var s Stream
	for i := range f.streams {
		if err := r.Read(i, &s); err != nil {
			return "", err
		}
		d.Add(&s)
	}
	return d.Sum(&f.meta)
}

// Verify reads everything and compares it with the stored digest.
func (f *File) Verify() error {
	got, err := f.computeDigest(f.digest != "")
	if err != nil {
		return err
	}
	if f.digest != "" && got != f.digest {
		return fileError(f.path, RuleDigest, "content or metadata were altered after writing: digest %s, stored %s", got, f.digest)
	}
	return nil
}

// Validation is the result of Validate.
type Validation struct {
	Streams int    // streams read
	Rows    int64  // rows in them
	Indices int64  // indices in them
	Digest  string // digest of the content, empty if violations prevent it
	Stored  bool   // the file states this digest
}

// Validate applies every rule of FORMAT.md to the file at path and passes each violation to report
// until report returns false. Violations are not errors here. The error is non-nil only if the file
// cannot be opened as a trace, or if ctx ended. Validate checks ctx between streams.
func Validate(ctx context.Context, path string, report func(*Error) bool) (Validation, error) {
	var v Validation
	clean, stopped := true, false
	note := func(e *Error) bool {
		clean = false
		if !report(e) {
			stopped = true
		}
		return !stopped
	}
	f, err := open(ctx, path, false, note)
	if storage.Unread(err) {
		return v, err
	}
	if e := AsError(err); e != nil {
		note(e)
		return v, nil
	}
	if err != nil {
		return v, err
	}
	defer f.Close()
	if stopped {
		return v, nil
	}
	if !f.crc && f.digest == "" {
		note(AsError(f.verifyDigest()))
	}
	r := f.NewReader(ReadAll)
	defer r.Close()
	r.trust = true // the missing CRCs are noted, or the digest is compared
	d := NewDigester()
	var s Stream
	for i := range f.streams {
		if stopped {
			return v, nil
		}
		if err := ctx.Err(); err != nil {
			return v, fmt.Errorf("validate %s: %w", path, err)
		}
		if err := r.decode(i, &s); err != nil {
			e := AsError(err)
			if e == nil || storage.Unread(err) {
				return v, err
			}
			note(e)
			continue
		}
		for _, e := range r.broken {
			if !note(e) {
				return v, nil
			}
		}
		v.Streams++
		v.Rows += int64(s.Rows)
		v.Indices += int64(len(s.Indices))
		if !r.check.Stream(&s, note) {
			return v, nil
		}
		if clean {
			d.Add(&s)
		}
	}
	if !clean {
		return v, nil
	}
	if v.Digest, err = d.Sum(&f.meta); err != nil {
		return v, fmt.Errorf("validate %s: %w", path, err)
	}
	v.Stored = v.Digest == f.digest
	if f.digest != "" && !v.Stored {
		note(fileError(f.path, RuleDigest, "content or metadata were altered after writing: digest %s, stored %s", v.Digest, f.digest))
	}
	return v, nil
}
