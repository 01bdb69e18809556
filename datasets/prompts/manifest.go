package prompts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
)

// Manifest says what is in a prompts file and how to make it again.
type Manifest struct {
	File      string   `json:"file"`   // name of the prompts file beside it
	Rows      int      `json:"rows"`   // prompts in it
	Digest    string   `json:"digest"` // sha256:… of its bytes
	Generator string   `json:"generator"`
	Version   string   `json:"version"` // of the generator
	Command   []string `json:"command,omitempty"`
	Benchmark string   `json:"benchmark"`
	Tokenizer string   `json:"tokenizer"` // what lengths were counted with (package tokens)
	Seed      uint64   `json:"seed"`
	Tasks     []Task   `json:"tasks"`
	Sources   []Source `json:"sources"` // every text that went into the prompts
}

// Task is the share of a manifest's rows that one task has at one length.
type Task struct {
	Name      string `json:"name"`
	MaxLength int    `json:"max_length,omitempty"` // tokens asked for
	Rows      int    `json:"rows"`
}

// Source is a text that prompts were made from.
type Source struct {
	Role       string `json:"role"`                 // essays, squad, words, gov_report, …
	Name       string `json:"name"`                 // title, or the name of the file
	Digest     string `json:"digest"`               // sha256:… of its bytes
	Licence    string `json:"licence"`              // SPDX expression, public domain, or as stated
	Origin     string `json:"origin,omitempty"`     // where to get it
	Substitute string `json:"substitute,omitempty"` // the original that it stands in for, if it does
}

// ManifestPath is where the manifest of a prompts file lies: a.jsonl has a.manifest.json.
func ManifestPath(prompts string) string {
	return strings.TrimSuffix(prompts, ".jsonl") + ".manifest.json"
}

// checkManifest says why the manifest of a prompts file cannot be written: its path is no
// regular file, or has the manifest of another prompts file.
func checkManifest(prompts string) error {
	path := ManifestPath(prompts)
	if err := files.Check(path, prompts); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // there is none
	}
	var there struct{ File string }
	if err := json.Unmarshal(text, &there); err != nil || there.File == filepath.Base(prompts) {
		return nil // it is replaced, whatever it was
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(prompts), there.File)); there.File == "" || err != nil {
		return nil
	}
	return &files.TargetError{Target: path, Why: fmt.Sprintf("the manifest of %s, which lies beside it", there.File)}
}

// ReadManifest reads the manifest of a prompts file, given the path of the latter, and
// does not look at the prompts; Verify does.
func ReadManifest(prompts string) (*Manifest, error) {
	path := ManifestPath(prompts)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("read manifest: %s: %w", path, names.OfFields(err, m))
	}
	if m.File != filepath.Base(prompts) {
		return nil, fmt.Errorf("read manifest: %s: it is that of %q, expected %q", path, m.File, filepath.Base(prompts))
	}
	return &m, nil
}

// Verify compares a prompts file with the digest in its manifest.
func (m *Manifest) Verify(prompts string) error {
	text, err := os.ReadFile(prompts)
	if err != nil {
		return fmt.Errorf("verify prompts: %w", err)
	}
	if got := Digest(text); got != m.Digest {
		return fmt.Errorf("verify prompts: %s: digest %s, its manifest says %s; make it again", prompts, got, m.Digest)
	}
	return nil
}

// Digest is how manifests write a SHA-256.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// describe fills in what the file itself tells.
func (m *Manifest) describe(path string, rows int, sum []byte) {
	m.File, m.Rows, m.Digest = filepath.Base(path), rows, "sha256:"+hex.EncodeToString(sum)
}

// pending writes the manifest to a temporary file that waits for its name.
func (m *Manifest) pending(path string) (*files.File, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	file, err := files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	if _, err := file.Write(text.Bytes()); err != nil {
		file.Abort()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return file, nil
}
