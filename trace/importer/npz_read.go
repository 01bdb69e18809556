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

	"github.com/sbinet/npyio/npy"
	"github.com/sbinet/npyio/npz"
)

// stoppable is a file whose reading ends with a context.
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

// readNPZ reads the arrays from a zip archive of size bytes.
func readNPZ(file io.ReaderAt, size, limit int64) (*npzArrays, []string, error) {
	if err := checkZip(file, size, limit); err != nil {
		return nil, nil, err
	}
	z, err := npz.NewReader(file, size)
	if err != nil {
		return nil, nil, err
	}
	a := &npzArrays{}
	var ignored []string
	for _, name := range z.Keys() {
		if !slices.Contains(npzNames, name) {
			ignored = append(ignored, name)
		}
	}
	values, dims, err := readArray(z, "topk_indices.npy")
	if err != nil {
		return nil, nil, err
	}
	if len(dims) != 3 || len(values) == 0 {
		return nil, nil, fmt.Errorf("topk_indices has shape %v, expected (steps, layers, topk), none 0", dims)
	}
	a.indices, a.steps, a.layers, a.topk = values, dims[0], dims[1], dims[2]
	for i, to := range []*int{&a.prompt, &a.output, &a.context0} {
		name := npzNames[1+i]
		values, _, err := readArray(z, name)
		if err != nil {
			return nil, nil, err
		}
		if len(values) != 1 {
			return nil, nil, fmt.Errorf("%s has %d values, expected one", name, len(values))
		}
		*to = int(values[0])
	}
	return a, ignored, nil
}

// npzNames are the entries of the archive: the lists, then the scalars.
var npzNames = []string{"topk_indices.npy", "prompt_len.npy", "output_len.npy", "slot_ctx0.npy"}

// checkZip checks the directory of the archive: every array is there, and all of
// them fit into memory.
func checkZip(file io.ReaderAt, size, limit int64) error {
	z, err := zip.NewReader(file, size)
	if err != nil {
		return fmt.Errorf("not a complete zip archive (cut off? its directory is at the end): copy or make it again: %w", err)
	}
	total := uint64(0)
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
		if total += f.UncompressedSize64; total > uint64(limit) || f.UncompressedSize64 > uint64(limit) {
			return fmt.Errorf("unpacks to more than %d bytes, a quarter of the memory budget: raise --memory", limit)
		}
	}
	for _, name := range npzNames {
		if !slices.Contains(names, name) {
			return fmt.Errorf("has no array %s; found %v, expected %v", name, names, npzNames)
		}
	}
	return nil
}

// readArray reads an integer array as int32, with its dimensions. The bytes are read
// first, so that the zip's checksum and the array's size are checked before npyio,
// which takes an early end for zeros, sees them.
func readArray(z *npz.Reader, name string) ([]int32, []int, error) {
	raw, err := readEntry(z, name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	body := bytes.NewReader(raw)
	var values []int32
	var dims []int
	err = guard(func() error {
		r, err := npy.NewReader(body)
		if err != nil {
			return err
		}
		dims = r.Header.Descr.Shape
		values, err = readInts(r, body.Len())
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return values, dims, nil
}

func readEntry(z *npz.Reader, name string) ([]byte, error) {
	r, err := z.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// readInts reads the values, whose bytes must be as many as the header asks for.
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
			return nil, fmt.Errorf("has shape %v", h.Shape)
		}
		n *= d
	}
	if n*width != have {
		return nil, fmt.Errorf("has %d bytes of values, but its shape %v of %s needs %d: the array is damaged or cut off", have, h.Shape, h.Type, n*width)
	}
	if n == 0 {
		return nil, nil
	}
	if width == 4 {
		values := make([]int32, n)
		return values, r.Read(&values)
	}
	wide := make([]int64, n)
	if err := r.Read(&wide); err != nil {
		return nil, err
	}
	return narrow(wide)
}

// narrow turns int64 into int32, which every position and length fits.
func narrow(wide []int64) ([]int32, error) {
	values := make([]int32, len(wide))
	for i, v := range wide {
		if v < math.MinInt32 || v > math.MaxInt32 {
			return nil, fmt.Errorf("value %d at %d, expected one that int32 holds", v, i)
		}
		values[i] = int32(v)
	}
	return values, nil
}
