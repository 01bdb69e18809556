package offline

import (
	"errors"
	"fmt"
	"go/ast"
	"math/rand/v2"
	"slices"
	"strings"
)

// use is the first line of a file that uses a package, by one of its declarations
// (RepoBench's cross-file-first).
type use struct {
	file *goFile
	line int // from 0
	of   *decl
}

// linesBefore is how many lines of the file come before the one asked for, at most.
const linesBefore = 40

// maxBytes is the size of the longest declaration or passage that a prompt shows: half a
// byte a token, so that one too many leaves at most a seventh of the prompt empty.
func maxBytes(budget int) int { return min(6000, max(budget/2, 400)) }

// openRepobench asks for a line that uses another file's declaration. A unit is a
// declaration that the line does not use.
func openRepobench(s *sources, budget int) (generator, error) {
	t, err := s.parsedGo()
	if err != nil {
		return nil, err
	}
	var uses []use
	var rest []*decl
	for _, p := range t.packages {
		for _, f := range p.files {
			for _, u := range t.firstUses(f, maxBytes(budget)) {
				if len(f.before(u.line, budget)) <= 2*budget { // half of the prompt
					uses = append(uses, u)
				}
			}
		}
		for _, d := range p.decls {
			if len(d.source) <= maxBytes(budget) {
				rest = append(rest, d)
			}
		}
	}
	if len(uses) == 0 {
		return nil, errors.New("no file uses another package's declaration")
	}
	return func(_ int, r *rand.Rand) (*problem, error) { return t.nextLine(r, pick(r, uses), rest, budget), nil }, nil
}

// parsedGo is the Go distribution with its declarations.
func (s *sources) parsedGo() (*goTree, error) {
	t, err := s.openGo()
	if err != nil {
		return nil, err
	}
	return t, t.parse()
}

// firstUses finds the first use of each package that a file imports, in a function or a
// group, of a declaration of so many bytes at most.
func (t *goTree) firstUses(f *goFile, most int) (list []use) {
	all := lines(f.text)
	seen := f.declared() // what the file declares by a package's name hides the package
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if !ok || f.imports[x.Name] == "" || seen[x.Name] {
			return true
		}
		seen[x.Name] = true
		line := f.line(s.Pos())
		of := t.lookup(f.imports[x.Name], s.Sel.Name)
		if of != nil && len(of.source) <= most && strings.HasPrefix(all[line], "\t") && t.says(all[line]) {
			list = append(list, use{f, line, of})
		}
		return true
	})
	return list
}

// declared are the names of the file's variables, parameters and fields.
func (f *goFile) declared() map[string]bool {
	names := map[string]bool{}
	add := func(x ast.Expr) {
		if id, ok := x.(*ast.Ident); ok {
			names[id.Name] = true
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				add(x)
			}
		case *ast.RangeStmt:
			add(n.Key)
			add(n.Value)
		case *ast.Field:
			for _, x := range n.Names {
				add(x)
			}
		case *ast.ValueSpec:
			for _, x := range n.Names {
				add(x)
			}
		}
		return true
	})
	return names
}

// lookup finds a function or type, nil if there is none.
func (t *goTree) lookup(path, name string) *decl {
	p := t.byPath[path]
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.decls, func(d *decl) bool { return d.recv == "" && d.name == name })
	if i < 0 {
		return nil
	}
	return p.decls[i]
}

// nextLine is the problem of one use: declarations of the packages that the file
// imports, in random order, then of any others, the one that is used among them; then
// the file's imports and the lines before.
func (t *goTree) nextLine(r *rand.Rand, u use, all []*decl, budget int) *problem {
	near, far := t.others(u, all)
	near, far = shuffled(r, near), shuffled(r, far)
	others := slices.Concat(near, far)
	share := r.Float64()
	before := u.file.before(u.line, budget)
	return &problem{
		least: 0, most: len(others),
		origin: fmt.Sprintf("%s, %s:%d, which uses %s", t.name, u.file.path, u.line+1, u.of.qualified()),
		build: func(n int) (string, []string) {
			shown := make([]string, n)
			for i, d := range others[:n] {
				shown[i] = d.shown()
			}
			shown, _ = placed(shown, u.of.shown(), share)
			return published("repobench-p", strings.Join(shown, ""), before), []string{codeLine(lines(u.file.text)[u.line])}
		},
	}
}

// others are the declarations that the line does not use: those of imported packages,
// and the rest but for the file's own.
func (t *goTree) others(u use, all []*decl) (near, far []*decl) {
	imported := map[*goPackage]bool{}
	for _, path := range u.file.imports {
		imported[t.byPath[path]] = true
	}
	for _, d := range all {
		switch {
		case d == u.of, d.file == u.file:
		case imported[d.pkg]:
			near = append(near, d)
		default:
			far = append(far, d)
		}
	}
	return near, far
}

// shown is a declaration as a snippet of its file.
func (d *decl) shown() string { return "// Path: " + d.file.path + "\n" + d.source + "\n\n" }

// before is the file up to a line: its head with the imports, and the last lines, which
// have so many bytes at most.
func (f *goFile) before(line, most int) string {
	all := lines(f.text)
	head := f.line(f.syntax.Package)
	body := head + 1
	if n := len(f.syntax.Imports); n > 0 {
		body = f.line(f.syntax.Imports[n-1].End()) + 1
		if body < len(all) && strings.HasPrefix(all[body], ")") {
			body++
		}
	}
	from := max(body, line-linesBefore)
	for from < line && length(all[from:line]) > most {
		from++
	}
	text := strings.Join(all[head:min(body, line)], "")
	if from > body {
		text += "\n"
	}
	return "// Path: " + f.path + "\n" + text + strings.Join(all[min(from, line):line], "")
}
