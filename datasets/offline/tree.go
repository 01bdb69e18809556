package offline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/datasets/prompts"
)

// tree is a folder of source files.
type tree struct {
	name, licence, origin string
	comment               string // begins a line that is a comment
	files                 []file // sorted by path
	digest                string // of paths and contents
}

// file is one of them.
type file struct {
	path string // within the tree, by slashes
	text string
}

// source is the tree in the manifest.
func (t *tree) source() prompts.Source {
	return prompts.Source{Role: "code", Name: t.name, Digest: t.digest, Licence: t.licence, Origin: t.origin}
}

// generated is how Go marks files that a program wrote (go.dev/s/generatedcode), and
// how programs mark other languages' files mostly.
var generated = regexp.MustCompile(`(?m)^(//|#) (Code|This file was|This file is) (automatically )?generated\b.*$`)

// maxLine is the length in bytes beyond which a line is data, not code.
const maxLine = 1000

// isCode says whether a person may have written the file: it is UTF-8, not generated,
// and has no line beyond maxLine.
func isCode(content []byte) bool {
	if !utf8.Valid(content) || generated.Match(content[:min(len(content), 2048)]) {
		return false
	}
	for line := range bytes.Lines(content) {
		if len(line) > maxLine {
			return false
		}
	}
	return true
}

// read fills in the files that keep wants and that are code.
func (t *tree) read(fsys fs.FS, root string, skip []string, keep func(path string) bool) error {
	err := fs.WalkDir(fsys, root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if p != root && slices.Contains(skip, d.Name()) {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || !keep(p):
			return nil
		}
		content, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		if isCode(content) {
			t.files = append(t.files, file{p, string(content)})
		}
		return nil
	})
	if err == nil && len(t.files) == 0 {
		err = errors.New("no source files")
	}
	if err != nil {
		return err
	}
	t.digest = digest(t.files)
	return nil
}

// digest is the SHA-256 over a line for each file: the SHA-256 of its content, two
// blanks and its path, as `sha256sum` prints them.
func digest(files []file) string {
	sum := sha256.New()
	for _, f := range files {
		one := sha256.Sum256([]byte(f.text))
		fmt.Fprintf(sum, "%s  %s\n", hex.EncodeToString(one[:]), f.path)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// readPython reads a standard library of Python without its tests, its editor and what
// was installed besides.
func readPython(fsys fs.FS, name string) (*tree, error) {
	t := &tree{name: "Python standard library, " + name, licence: "PSF-2.0", origin: "https://www.python.org/downloads/source/", comment: "#"}
	skip := []string{"test", "tests", "idlelib", "lib2to3", "pydoc_data", "site-packages", "dist-packages", "__pycache__", "lib-dynload"}
	err := t.read(fsys, ".", skip, func(p string) bool { return path.Ext(p) == ".py" })
	return t, err
}

// long returns what has at least so many bytes or, where that is fewer things than
// should be there to choose from, the longest.
func long[T any](list []T, bytes, fewest int, size func(T) int) []T {
	enough := slices.DeleteFunc(slices.Clone(list), func(x T) bool { return size(x) < bytes })
	if len(enough) >= fewest {
		return enough
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b T) int { return size(b) - size(a) })
	return sorted[:min(fewest, len(sorted))]
}

// bytesPerToken is more than what code and prose have in vocabularies of today, 3 to
// 4.8: what has that many bytes fills the prompt.
const bytesPerToken = 5

// lines splits text into lines with their newlines.
func lines(text string) []string { return slices.Collect(strings.Lines(text)) }
