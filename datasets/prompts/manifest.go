package prompts

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/text"
)

// Manifest describes a prompts file and how to make it again.
type Manifest struct {
	File      string   `json:"file"`   // name of the prompts file, in the same folder
	Rows      int      `json:"rows"`   // prompts in it
	Digest    string   `json:"digest"` // sha256:… of its bytes
	Generator string   `json:"generator"`
	Version   string   `json:"version"` // of the generator
	Command   []string `json:"command,omitempty"`
	Benchmark string   `json:"benchmark"`
	Tokenizer string   `json:"tokenizer"` // tokenizer of the lengths (package tokens)
	Seed      uint64   `json:"seed"`
	Tasks     []Task   `json:"tasks"`
	Sources   []Source `json:"sources"` // every text in the prompts
}

// Task is the share of a manifest's rows that one task has at one length.
type Task struct {
	Name      string `json:"name"`
	MaxLength int    `json:"max_length,omitempty"` // requested tokens
	Rows      int    `json:"rows"`
}

// Source is a text that prompts were made from.
type Source struct {
	Role       string `json:"role"`                 // essays, squad, words, gov_report, …
	Name       string `json:"name"`                 // title, or the name of the file
	Digest     string `json:"digest"`               // sha256:… of its bytes
	Licence    string `json:"licence"`              // SPDX expression, public domain, or as stated
	Origin     string `json:"origin,omitempty"`     // where to get it
	Substitute string `json:"substitute,omitempty"` // the original that it stands in for, if any
}

// ManifestPath returns the path of the manifest of a prompts file. a.jsonl has a.manifest.json.
func ManifestPath(prompts string) string {
	return strings.TrimSuffix(prompts, ".jsonl") + ".manifest.json"
}

// checkManifest returns an error if the manifest of a prompts file cannot be written. Its path may
// be no regular file, or have the manifest of another prompts file.
func checkManifest(prompts string) error {
	path := ManifestPath(prompts)
	if err := files.Check(path, prompts); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // there is no manifest yet
	}
	var old struct{ File string }
	if err := json.Unmarshal(text, &old); err != nil || old.File == filepath.Base(prompts) {
		return nil // it will be replaced
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(prompts), old.File)); old.File == "" || err != nil {
		return nil
	}
	return &files.TargetError{Target: path, Why: fmt.Sprintf("the manifest of %s in the same folder", old.File)}
}

// Digest returns a SHA-256 as manifests write it.
func Digest(text []byte) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text))
}

// pending writes the manifest to a temporary file that waits for its name.
func (m *Manifest) pending(path string) (*files.File, error) {
	var data bytes.Buffer
	if err := text.WriteJSON(&data, m); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	file, err := files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	if _, err := file.Write(data.Bytes()); err != nil {
		file.Abort()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return file, nil
}
