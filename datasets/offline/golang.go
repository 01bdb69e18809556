package offline

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path"
	"strings"
)

// goTree is the standard library of a Go distribution.
type goTree struct {
	tree
	packages []*goPackage // by path; filled by parse
	byPath   map[string]*goPackage
}

// goPackage is one package.
type goPackage struct {
	path  string // import path
	doc   string // its documentation
	files []*goFile
	decls []*decl
}

// goFile is one file with its syntax tree.
type goFile struct {
	file
	syntax  *ast.File
	set     *token.FileSet
	imports map[string]string // import path by the name in this file
}

// readGo reads the standard library: the files that linux/amd64 builds, whatever this
// program runs on, without tests and what is vendored.
func readGo(fsys fs.FS) (*goTree, error) {
	version, err := fs.ReadFile(fsys, "VERSION")
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(version)), "\n")
	t := &goTree{tree: tree{name: "Go distribution " + name, licence: "BSD-3-Clause", origin: "https://go.dev/dl/", comment: "//"}}
	builds := buildContext(fsys)
	err = t.read(fsys, "src", []string{"testdata", "vendor", "cmd"}, func(p string) bool {
		if path.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go") {
			return false
		}
		match, err := builds.MatchFile(path.Dir(p), path.Base(p))
		return err == nil && match
	})
	return t, err
}

// buildContext is that of linux/amd64 with every release tag, so that the files chosen
// do not depend on the Go that built this program.
func buildContext(fsys fs.FS) *build.Context {
	c := &build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: "gc", CgoEnabled: true, JoinPath: path.Join,
		OpenFile: func(p string) (io.ReadCloser, error) { return fsys.Open(p) }}
	for i := range 100 {
		c.ReleaseTags = append(c.ReleaseTags, fmt.Sprintf("go1.%d", i))
	}
	return c
}

// parse parses all files, once.
func (t *goTree) parse() error {
	if t.packages != nil {
		return nil
	}
	t.byPath = map[string]*goPackage{}
	set := token.NewFileSet()
	for _, f := range t.files {
		syntax, err := parser.ParseFile(set, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		p := t.pkg(strings.TrimPrefix(path.Dir(f.path), "src/"))
		g := &goFile{file: f, syntax: syntax, set: set, imports: importNames(syntax)}
		p.files = append(p.files, g)
		if doc := syntax.Doc.Text(); len(doc) > len(p.doc) {
			p.doc = doc
		}
		p.decls = append(p.decls, g.decls(p)...)
	}
	return nil
}

func (t *goTree) pkg(path string) *goPackage {
	p := t.byPath[path]
	if p == nil {
		p = &goPackage{path: path}
		t.byPath[path] = p
		t.packages = append(t.packages, p)
	}
	return p
}

// importNames are the packages that a file names in its code.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, i := range f.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = p
	}
	return names
}

// public says whether users of Go may import the package.
func (p *goPackage) public() bool {
	return !strings.Contains("/"+p.path+"/", "/internal/") && p.path != "builtin"
}

// isMain says whether the package is a program, as some generators are.
func (p *goPackage) isMain() bool { return p.files[0].syntax.Name.Name == "main" }

// bytes is the size of the source from the package clauses on.
func (p *goPackage) bytes() (n int) {
	for _, f := range p.files {
		n += len(f.clause())
	}
	return n
}

// clause is the file from its package clause on; what stands before may be the
// package's documentation.
func (f *goFile) clause() string { return f.text[f.offset(f.syntax.Package):] }

// offset is the byte of a place in the file, line its line, both from 0.
func (f *goFile) offset(at token.Pos) int { return f.set.PositionFor(at, false).Offset }
func (f *goFile) line(at token.Pos) int   { return f.set.PositionFor(at, false).Line - 1 }
