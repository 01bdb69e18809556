package offline

import (
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// lineAfter makes a task: the line after a run of lines. A unit is a line of the file. If the file
// has too few, units are lines of the other files in its folder, put before it.
func lineAfter(t *tree, budget int) (generator, error) {
	enough := budget * bytesPerToken
	folders := map[string][]file{}
	for _, f := range t.files {
		folders[path.Dir(f.path)] = append(folders[path.Dir(f.path)], f)
	}
	candidates := long(t.files, enough, 8, func(f file) int { return len(f.text) })
	if len(candidates[len(candidates)-1].text) < enough { // too few files are long enough
		candidates = long(t.files, enough, 8, func(f file) int {
			return slice.Sum(folders[path.Dir(f.path)], func(f file) int { return len(f.text) })
		})
	}
	return func(_ int, r *rand.Rand) (*prompts.Sample, error) {
		for range 1000 {
			f := pick(r, candidates)
			own := lines(f.text)
			targets := t.targets(own, enough)
			if len(targets) == 0 {
				continue
			}
			at := pick(r, targets)
			all := own[:at]
			if length(all) < enough {
				all = append(t.others(folders[path.Dir(f.path)], f), all...)
			}
			return &prompts.Sample{
				Least: 1, Most: len(all),
				Origin: fmt.Sprintf("%s, %s:%d", t.name, f.path, at+1),
				Prompt: func(n int) prompts.Draft {
					return published("lcc", strings.Join(all[len(all)-n:], ""), "", codeLine(own[at]))
				},
			}, nil
		}
		return nil, fmt.Errorf("no line of code in the files of %s", t.name)
	}, nil
}

// others returns the lines of all files but one, each file after its name.
func (t *tree) others(files []file, but file) (all []string) {
	for _, f := range files {
		if f != but {
			all = append(all, t.comment+" "+f.path+"\n")
			all = append(all, lines(f.text)...)
			all = append(all, "\n")
		}
	}
	return append(all, t.comment+" "+but.path+"\n")
}

// length returns the bytes of lines.
func length(lines []string) (n int) {
	return slice.Sum(lines, func(line string) int { return len(line) })
}

// targets returns the lines that may be the answer. They are code with at least enough bytes before
// them. In a shorter file they are in its second half.
func (t *tree) targets(all []string, enough int) (at []int) {
	before := 0
	enough = min(enough, length(all)/2)
	for i, line := range all {
		if i > 0 && before >= enough && t.says(line) {
			at = append(at, i)
		}
		before += len(line)
	}
	return at
}

// says reports whether a line has more than a comment or brackets.
func (t *tree) says(line string) bool {
	line = strings.TrimSpace(line)
	letters := slice.Count([]rune(line), unicode.IsLetter)
	return letters >= 4 && !strings.HasPrefix(line, t.comment)
}

// codeLine returns a line without trailing white space.
func codeLine(line string) string { return strings.TrimRight(line, " \t\r\n") }

// use is the first line of a file that uses a package, by one of its declarations
// (RepoBench's cross-file-first).
type use struct {
	file *goFile
	line int // from 0
	of   *decl
}

// linesBefore is the largest number of lines of the file before the requested one.
const linesBefore = 40

// maxBytes returns the size of the longest declaration or passage in a prompt. It is half a byte
// per token, so that one too many leaves at most a seventh of the prompt empty.
func maxBytes(budget int) int { return min(6000, max(budget/2, 400)) }

// lineUsing makes a task: a line that uses another file's declaration. A unit is a declaration that
// the line does not use.
func lineUsing(t *goTree, budget int) (generator, error) {
	var uses []use
	var rest []*decl
	for _, p := range t.packages {
		for _, f := range p.files {
			short := func(u use) bool { return len(f.before(u.line, budget)) <= 2*budget } // half of the prompt
			uses = append(uses, slice.Filter(t.firstUses(f, maxBytes(budget)), short)...)
		}
		rest = append(rest, slice.Filter(p.decls, func(d *decl) bool { return len(d.source) <= maxBytes(budget) })...)
	}
	if len(uses) == 0 {
		return nil, errors.New("no file uses another package's declaration")
	}
	return func(_ int, r *rand.Rand) (*prompts.Sample, error) {
		return t.nextLine(r, pick(r, uses), rest, budget), nil
	}, nil
}

// firstUses returns the first use of each package that a file imports. A use is in a function or a
// group, of a declaration that has no more bytes than most.
func (t *goTree) firstUses(f *goFile, most int) (list []use) {
	all := lines(f.text)
	seen := f.declared() // a declaration with a package's name hides the package
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
		target := t.lookup(f.imports[x.Name], s.Sel.Name)
		if target != nil && len(target.source) <= most && strings.HasPrefix(all[line], "\t") && t.says(all[line]) {
			list = append(list, use{f, line, target})
		}
		return true
	})
	return list
}

// declared returns the names of the file's variables, parameters and fields.
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

// lookup returns a function or type, or nil.
func (t *goTree) lookup(path, name string) *decl {
	if p := t.byPath[path]; p != nil {
		for _, d := range p.decls {
			if d.recv == "" && d.name == name {
				return d
			}
		}
	}
	return nil
}

// nextLine makes the problem of one use. Declarations of the imported packages come first, in
// random order, with the used one among them. Declarations of other packages follow, then the
// file's imports and the lines before.
func (t *goTree) nextLine(r *rand.Rand, u use, all []*decl, budget int) *prompts.Sample {
	near, far := others(u, all)
	others := slices.Concat(shuffled(r, near), shuffled(r, far))
	share := r.Float64()
	before := u.file.before(u.line, budget)
	return &prompts.Sample{
		Least: 0, Most: len(others),
		Origin: fmt.Sprintf("%s, %s:%d, which uses %s", t.name, u.file.path, u.line+1, u.of.qualified()),
		Prompt: func(n int) prompts.Draft {
			shown, _ := placed(slice.Map(others[:n], (*decl).shown), u.of.shown(), share)
			return published("repobench-p", strings.Join(shown, ""), before, codeLine(lines(u.file.text)[u.line]))
		},
	}
}

// others returns the declarations that the line does not use: those of imported packages, and the
// rest except the file's own.
func others(u use, all []*decl) (near, far []*decl) {
	imported := slices.Collect(maps.Values(u.file.imports))
	all = slice.Filter(all, func(d *decl) bool { return d != u.of && d.file != u.file })
	return slice.Partition(all, func(d **decl) bool { return slices.Contains(imported, (*d).pkg.path) })
}

// shown returns a declaration as a snippet of its file.
func (d *decl) shown() string { return "// Path: " + d.file.path + "\n" + d.source + "\n\n" }

// before returns the file up to a line: its head with the imports, and the last lines. most bounds
// their bytes.
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
