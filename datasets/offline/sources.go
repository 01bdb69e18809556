package offline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/files"
)

// Places are the locations of the sources. An empty field means that kvreplay searches for it.
type Places struct {
	GoRoot string   // of a Go distribution with its sources. By default $GOROOT or the output of `go env GOROOT`
	Python string   // Python's standard library. By default that of python3
	Texts  []string // files of plain text in UTF-8. By default Newton's Opticks of the Go distribution
}

// sources are read when a task first needs them.
type sources struct {
	golang func() (*goTree, error)
	python func() (*tree, error)
	texts  func() ([]*text, error)
	used   []prompts.Source
}

func newSources(ctx context.Context, p Places) *sources {
	s := &sources{}
	s.golang = once(s, "sources of Go", p.goRoot, func(root string) (*goTree, error) { return readGo(os.DirFS(root)) })
	s.python = once(s, "standard library of Python", p.pythonLibrary, func(folder string) (*tree, error) {
		return readPython(os.DirFS(folder), filepath.Base(folder))
	})
	s.texts = sync.OnceValues(func() ([]*text, error) {
		list, err := p.readTexts(ctx)
		for _, t := range list {
			s.used = append(s.used, t.source())
		}
		return list, err
	})
	return s
}

// once returns a function that reads a source once, from the folder that find returns, and lists it.
func once[T interface{ source() prompts.Source }](s *sources, name string, find func() (string, error), read func(folder string) (T, error)) func() (T, error) {
	return sync.OnceValues(func() (t T, err error) {
		folder, err := find()
		if err != nil {
			return t, err
		}
		if t, err = read(folder); err != nil {
			return t, fmt.Errorf("read the %s: %w", name, err)
		}
		s.used = append(s.used, t.source())
		return t, nil
	})
}

// errNoPython marks an absent Python. All other tasks can be made.
var errNoPython = errors.New("no standard library of Python")

func (p Places) goRoot() (string, error) {
	root, from := p.GoRoot, "given"
	if root == "" {
		root, from = os.Getenv("GOROOT"), "of $GOROOT"
	}
	if root == "" {
		root, from = said("go", "env", "GOROOT"), "that go names"
	}
	if root == "" {
		return "", errors.New("no Go distribution: neither $GOROOT nor a go command exists. Name one with its sources: --goroot FOLDER")
	}
	if _, err := os.Stat(filepath.Join(root, "src", "fmt", "print.go")); err != nil {
		return "", fmt.Errorf("the Go distribution %s has no sources: %w. Name one with its sources: --goroot FOLDER", from, err)
	}
	return root, nil
}

func (p Places) pythonLibrary() (string, error) {
	folder := p.Python
	if folder == "" {
		folder = said("python3", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))")
	}
	if folder == "" {
		return "", fmt.Errorf("%w: no python3 command. Name the folder with --python FOLDER", errNoPython)
	}
	if _, err := os.Stat(filepath.Join(folder, "os.py")); err != nil {
		if p.Python != "" {
			return "", fmt.Errorf("--python: no standard library of Python: %w", err)
		}
		return "", fmt.Errorf("%w: %w. Name the folder with --python FOLDER", errNoPython, err)
	}
	return folder, nil
}

// said returns the first line that a program prints, "" if it cannot run. It keeps the go command
// from fetching another version for the current folder.
func said(program string, args ...string) string {
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := c.Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// readTexts reads the texts, or Newton's Opticks if none is named.
func (p Places) readTexts(ctx context.Context) (list []*text, err error) {
	for _, path := range p.Texts {
		content, err := files.Read(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("read text: %w", err)
		}
		t, err := parseText(content)
		if err != nil {
			return nil, fmt.Errorf("read text %s: %w", path, err)
		}
		t.name, t.licence = filepath.Base(path), "as the user's file"
		list = append(list, t)
	}
	if len(list) > 0 {
		return list, nil
	}
	root, err := p.goRoot()
	if err != nil {
		return nil, fmt.Errorf("%w, or a text with --text FILE", err)
	}
	t, err := readOpticks(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	return []*text{t}, nil
}

// tree is a folder of source files.
type tree struct {
	name, licence, origin string
	comment               string // begins a line that is a comment
	files                 []file // sorted by path
	digest                string // of paths and contents
}

// file is a file of a tree.
type file struct {
	path string // within the tree, with slashes
	text string
}

// source returns the tree's entry in the manifest.
func (t *tree) source() prompts.Source {
	return prompts.Source{Role: "code", Name: t.name, Digest: t.digest, Licence: t.licence, Origin: t.origin}
}

// generated matches Go's mark of files that a program wrote (go.dev/s/generatedcode), and the usual
// marks in other languages.
var generated = regexp.MustCompile(`(?m)^(//|#) (Code|This file was|This file is) (automatically )?generated\b.*$`)

// maxLine is the length in bytes beyond which a line is data, not code.
const maxLine = 1000

// isCode reports whether a person may have written the file: it is UTF-8, not generated, and has no
// line beyond maxLine.
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

// read adds the files for which keep returns true and that are code.
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

// digest returns the SHA-256 over a line for each file: the SHA-256 of its content, two blanks and
// its path, as `sha256sum` prints them.
func digest(files []file) string {
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%x  %s\n", sha256.Sum256([]byte(f.text)), f.path)
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

// readPython reads a standard library of Python without its tests, its editor and installed
// packages.
func readPython(fsys fs.FS, name string) (*tree, error) {
	t := &tree{name: "Python standard library, " + name, licence: "PSF-2.0", origin: "https://www.python.org/downloads/source/", comment: "#"}
	skip := []string{"test", "tests", "idlelib", "lib2to3", "pydoc_data", "site-packages", "dist-packages", "__pycache__", "lib-dynload"}
	err := t.read(fsys, ".", skip, func(p string) bool { return path.Ext(p) == ".py" })
	return t, err
}

// long returns the elements with at least bytes bytes. If they are fewer than fewest, it returns
// the longest.
func long[T any](list []T, bytes, fewest int, size func(T) int) []T {
	enough := slices.DeleteFunc(slices.Clone(list), func(x T) bool { return size(x) < bytes })
	if len(enough) >= fewest {
		return enough
	}
	sorted := slices.SortedStableFunc(slices.Values(list), func(a, b T) int { return size(b) - size(a) })
	return sorted[:min(fewest, len(sorted))]
}

// bytesPerToken exceeds the 3 to 4.8 bytes per token of code and prose in current vocabularies. A
// text of that many bytes per token therefore fills the prompt.
const bytesPerToken = 5

func lines(text string) []string { return slices.Collect(strings.Lines(text)) }

// goTree is the standard library of a Go distribution.
type goTree struct {
	tree
	packages []*goPackage // by path. parse fills it
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

// readGo reads the standard library: the files that linux/amd64 builds, on any machine, without
// tests and vendored packages.
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

// buildContext returns that of linux/amd64 with every release tag. The chosen files therefore do
// not depend on the Go that built this program.
func buildContext(fsys fs.FS) *build.Context {
	c := &build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: "gc", CgoEnabled: true, JoinPath: path.Join,
		OpenFile: func(p string) (io.ReadCloser, error) { return fsys.Open(p) }}
	for i := range 100 {
		c.ReleaseTags = append(c.ReleaseTags, fmt.Sprintf("go1.%d", i))
	}
	return c
}

// parse parses all files once.
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
	if t.byPath[path] == nil {
		t.byPath[path] = &goPackage{path: path}
		t.packages = append(t.packages, t.byPath[path])
	}
	return t.byPath[path]
}

// importNames returns the packages by the names that a file uses for them.
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

// public reports whether users of Go may import the package.
func (p *goPackage) public() bool {
	return !strings.Contains("/"+p.path+"/", "/internal/") && p.path != "builtin"
}

// isMain reports whether the package is a program, as some generators are.
func (p *goPackage) isMain() bool { return p.files[0].syntax.Name.Name == "main" }

// clause returns the file from its package clause on. The text before may be the package's
// documentation.
func (f *goFile) clause() string { return f.text[f.offset(f.syntax.Package):] }

// offset returns the byte of a position in the file, and line its line, both from 0.
func (f *goFile) offset(at token.Pos) int { return f.set.PositionFor(at, false).Offset }
func (f *goFile) line(at token.Pos) int   { return f.set.PositionFor(at, false).Line - 1 }

// decl is a function, a method or a type at the top of a file.
type decl struct {
	pkg       *goPackage
	file      *goFile
	name      string
	recv      string         // type of a method's receiver
	doc       string         // its documentation
	signature string         // without body, on one or more lines
	source    string         // all of it, documentation included
	params    *ast.FieldList // of a function
}

// exported reports whether the declaration's name is exported. A method's receiver must be exported
// too.
func (d *decl) exported() bool {
	return ast.IsExported(d.name) && (d.recv == "" || ast.IsExported(d.recv))
}

// qualified returns the name as documentation writes it: bufio.Reader.Peek.
func (d *decl) qualified() string {
	name := d.pkg.path + "."
	if d.recv != "" {
		name += d.recv + "."
	}
	return name + d.name
}

func (f *goFile) decls(p *goPackage) (list []*decl) {
	for _, d := range f.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			list = append(list, f.function(p, d))
		case *ast.GenDecl:
			if d.Tok == token.TYPE {
				list = append(list, f.types(p, d)...)
			}
		}
	}
	return list
}

func (f *goFile) function(p *goPackage, d *ast.FuncDecl) *decl {
	end := d.End()
	if d.Body != nil {
		end = d.Body.Pos()
	}
	out := &decl{pkg: p, file: f, name: d.Name.Name, doc: d.Doc.Text(), params: d.Type.Params,
		signature: strings.TrimSpace(f.between(d.Type.Pos(), end)), source: f.between(begin(d.Doc, d.Pos()), d.End())}
	if d.Recv != nil {
		out.signature = strings.TrimSpace(f.between(d.Pos(), end))
		out.recv = receiver(d.Recv)
	}
	return out
}

// types lists the types of one declaration, which may be a group.
func (f *goFile) types(p *goPackage, d *ast.GenDecl) (list []*decl) {
	for _, s := range d.Specs {
		t := s.(*ast.TypeSpec)
		doc, from := t.Doc, t.Pos()
		if doc == nil && !d.Lparen.IsValid() {
			doc, from = d.Doc, d.Pos()
		}
		list = append(list, &decl{pkg: p, file: f, name: t.Name.Name, doc: doc.Text(),
			signature: firstLines(f.between(from, t.End()), 24), source: f.between(begin(doc, from), t.End())})
	}
	return list
}

// begin returns the position of a declaration with its documentation.
func begin(doc *ast.CommentGroup, pos token.Pos) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return pos
}

func receiver(list *ast.FieldList) string {
	x := list.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return "?"
		}
	}
}

func (f *goFile) between(from, to token.Pos) string {
	return f.text[f.offset(from):f.offset(to)]
}

// firstLines cuts a text after n lines and marks the cut.
func firstLines(text string, n int) string {
	all := lines(text)
	if len(all) <= n {
		return text
	}
	return strings.Join(all[:n], "") + "\t// …\n"
}
