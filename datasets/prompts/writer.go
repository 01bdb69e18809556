package prompts

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/kvreplay/kvreplay/internal/files"
)

// Writer writes a prompts file and its manifest. Both appear under their names only
// when Close succeeds, and are never half written.
type Writer struct {
	path string
	file *files.File
	out  *bufio.Writer
	sum  hash.Hash
	line bytes.Buffer
	rows int
	seen map[string]bool
}

// Create opens a writer for a file at path. The caller closes or aborts it.
func Create(path string) (*Writer, error) {
	if err := checkManifest(path); err != nil {
		return nil, fmt.Errorf("create prompts: %w", err)
	}
	file, err := files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create prompts: %w", err)
	}
	w := &Writer{path: path, file: file, sum: sha256.New(), seen: make(map[string]bool)}
	w.out = bufio.NewWriterSize(io.MultiWriter(file, w.sum), 1<<16)
	return w, nil
}

// Write appends a row. Its id must be set and unique in the file.
func (w *Writer) Write(r *Row) error {
	err := r.Validate()
	switch {
	case err != nil:
	case r.ID == "":
		err = fmt.Errorf("id is empty")
	case w.seen[r.ID]:
		err = fmt.Errorf("id %q is there already", r.ID)
	}
	if err != nil {
		return fmt.Errorf("write %s: row %d: %w", w.path, w.rows+1, err)
	}
	w.seen[r.ID] = true
	w.rows++
	w.line.Reset()
	e := json.NewEncoder(&w.line)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write %s: row %d: %w", w.path, w.rows, err)
	}
	if _, err := w.out.Write(w.line.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	return nil
}

// Close finishes the file, puts rows and digest of it into m, and moves the file and
// then the manifest to their names (ManifestPath). After an error nothing is left
// behind, save a file whose manifest could not be moved.
func (w *Writer) Close(m *Manifest) error {
	defer w.Abort()
	if w.rows == 0 {
		return fmt.Errorf("write %s: no prompt was written", w.path)
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	m.describe(w.path, w.rows, w.sum.Sum(nil))
	manifest, err := m.pending(ManifestPath(w.path))
	if err != nil {
		return err
	}
	defer manifest.Abort()
	if err := w.file.Commit(); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	if err := manifest.Commit(); err != nil {
		return fmt.Errorf("write %s: %w", ManifestPath(w.path), err)
	}
	return nil
}

// Abort removes the unfinished file. It does nothing after Close.
func (w *Writer) Abort() { w.file.Abort() }
