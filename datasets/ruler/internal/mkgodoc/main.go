// Mkgodoc collects the documentation of Go's standard library into the file that stands in for
// SQuAD and HotpotQA if the user has neither.
//
//	go run ./datasets/ruler/internal/mkgodoc datasets/ruler/data/godoc.jsonl.br
//
// One line is one exported name that has a comment: package, kind, name and the comment's first
// paragraphs, as text. The output depends only on the Go version.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/andybalholm/brotli"
)

// minText is the least length of a comment in bytes. Shorter ones say too little.
const minText = 60

// maxText is the length in bytes at which a comment is cut, between paragraphs. Most paragraphs of
// SQuAD are shorter.
const maxText = 1200

// entry is a line of the file.
type entry struct {
	Package string `json:"package"` // import path
	Kind    string `json:"kind"`    // package, function, method, type
	Type    string `json:"type,omitempty"`
	Name    string `json:"name"`
	Text    string `json:"text"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mkgodoc FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "mkgodoc:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	z := brotli.NewWriterOptions(file, brotli.WriterOptions{Quality: brotli.BestCompression, LGWin: 24})
	out := json.NewEncoder(z)
	out.SetEscapeHTML(false)
	src := filepath.Join(build.Default.GOROOT, "src")
	err = filepath.WalkDir(src, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name, err := filepath.Rel(src, dir)
		if err != nil || name == "." {
			return err
		}
		if skipped(d.Name()) {
			return fs.SkipDir
		}
		return collect(out, filepath.ToSlash(name), dir)
	})
	if err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return file.Close()
}

// skipped reports whether a folder is left out: it is not for users, or has thousands of names with
// the same sentence.
func skipped(folder string) bool {
	switch folder {
	case "internal", "vendor", "testdata", "cmd", "builtin", "syscall", "simd":
		return true
	}
	return strings.HasPrefix(folder, "_") || strings.HasPrefix(folder, ".")
}

func collect(out *json.Encoder, path, dir string) error {
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", false
	found, err := context.ImportDir(dir, build.ImportComment)
	if err != nil {
		return nil // no Go files for this platform
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range found.GoFiles {
		f, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	p, err := doc.NewFromFiles(files, parsed, path)
	if err != nil {
		return err
	}
	put := func(kind, typ, name, comment string) {
		if text := paragraphs(p, comment); err == nil && len(text) >= minText {
			err = out.Encode(entry{path, kind, typ, name, text})
		}
	}
	put("package", "", path, p.Doc)
	for _, f := range p.Funcs {
		put("function", "", f.Name, f.Doc)
	}
	for _, t := range p.Types {
		put("type", "", t.Name, t.Doc)
		for _, f := range t.Funcs {
			put("function", "", f.Name, f.Doc)
		}
		for _, m := range t.Methods {
			put("method", t.Name, m.Name, m.Doc)
		}
	}
	return err
}

// paragraphs returns the first paragraphs of a comment, one per line, with links as plain text.
func paragraphs(p *doc.Package, comment string) string {
	printer := p.Printer()
	printer.TextWidth = -1
	var text strings.Builder
	for _, part := range strings.Split(strings.TrimSpace(string(printer.Text(p.Parser().Parse(comment)))), "\n\n") {
		if text.Len() > 0 && text.Len()+len(part) > maxText {
			break
		}
		if text.Len() > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(part)
	}
	return text.String()
}
