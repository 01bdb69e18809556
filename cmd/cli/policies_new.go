package cli

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"go/doc"
	"go/format"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/mod/modfile"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/metrics/submission"
	"github.com/kvreplay/kvreplay/policies"
)

//go:embed skeleton/*.tmpl
var skeleton embed.FS

// moduleOf is this program's module.
const moduleOf = "github.com/kvreplay/kvreplay"

func newPolicyCommand(known policies.Table) command {
	var dir string
	var register, python bool
	return command{
		use:   "new NAME",
		short: "Write the skeleton of a new policy, with its test",
		long: `Write an exact policy that compiles and passes the conformance kit, for you to change.
It goes to policies/NAME in this repository, or to a module of its own with --dir. With --python
it is the file NAME.py, which needs the package of scripts/python.
Lossy policies have another contract, which policies/LOSSY.md describes.`,
		example: "  kvreplay policies new mine --register\n  kvreplay policies new mine --dir ../mine\n  kvreplay policies new mine --python",
		args:    exactlyOne("name of the policy"),
		flags: func(fl *flagSet) {
			fl.StringVar(&dir, "dir", "", "write a module of its own to this `FOLDER`")
			fl.BoolVar(&register, "register", false, "add the policy to policies/all/all.go")
			fl.BoolVar(&python, "python", false, "write a policy in Python, to this folder or that of --dir")
		},
		run: func(c *call) error {
			if python {
				return newPython(c, dir, register)
			}
			s, err := newSketch(known, c.args[0], dir)
			if err != nil {
				return err
			}
			if register && s.own {
				return usagef("--register has no effect with --dir: a module of its own needs no line in policies/all/all.go")
			}
			if err := s.write(); err != nil {
				return err
			}
			if register {
				err = registerPolicy(s.Import, s.Package+".Entry")
			}
			fmt.Fprint(c.stdout, s.advice(register && err == nil))
			return err
		},
	}
}

// pythonNames are keywords of Python, the modules of its standard library (3.11 to 3.14), and packages that
// policies import. Python would import the policy's file in the place of such a module.
//
//go:embed python_names.txt
var pythonNames string

// newPython writes the skeleton of a policy in Python.
func newPython(c *call, dir string, register bool) error {
	name := c.args[0]
	switch {
	case register:
		return usagef("--register has no effect with --python: the table has policies in Go")
	case !sketchName.MatchString(name):
		return usagef("policy name %q: expected lower case words with hyphens, as in lru or opt-bypass", name)
	}
	module := strings.ReplaceAll(name, "-", "_")
	if slices.Contains(strings.Fields(pythonNames), module) {
		return usagef("policy name %q: %s has another meaning in Python: choose another name", name, module)
	}
	file := filepath.Join(dir, module+".py")
	class := ""
	for word := range strings.SplitSeq(name, "-") {
		class += strings.ToUpper(word[:1]) + word[1:]
	}
	text, err := filled("policy.py.tmpl", map[string]string{"Name": name, "File": file, "Class": class})
	if err != nil {
		return err
	}
	if dir != "" {
		if err := files.MakeFolder(dir); err != nil {
			return err
		}
	}
	if err := writeNew(file, text); errors.Is(err, fs.ErrExist) {
		return usagef("policies new %s: %s exists: remove it, or choose another name", name, file)
	} else if err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	_, err = fmt.Fprintf(c.stdout, "wrote %s\n\nnext:\n  pip install ./scripts/python    in a clone of kvreplay\n"+
		"  kvreplay policies check \"exec:python3 %s\"\n"+
		"  kvreplay replay TRACE --policy lru --policy opt --policy \"exec:python3 %s\"\n", file, file, file)
	return err
}

// sketch is a policy to be written.
type sketch struct {
	Name    string // as users type it
	Package string
	Import  string   // path of the package
	dir     string   // of the package
	root    string   // of its module, empty in this repository
	own     bool     // in a module of its own
	kept    []string // files of the module that were there before
}

var sketchName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// skeletonImports are the packages that a skeleton imports, without its own.
var skeletonImports = []string{"all", "bucket", "cli", "os", "policies", "policytest", "testing"}

// reservedPackage reports whether a package of that name could not be imported and used
// as a skeleton does.
func reservedPackage(name string) bool {
	return token.IsKeyword(name) || doc.IsPredeclared(name) || slices.Contains(skeletonImports, name) ||
		slices.Contains([]string{"main", "init", "internal", "vendor", "testdata"}, name)
}

// newSketch checks the name and finds where the policy goes.
func newSketch(known policies.Table, name, dir string) (*sketch, error) {
	if !sketchName.MatchString(name) {
		return nil, usagef("policy name %q: expected lower case words with hyphens, as in lru or opt-bypass", name)
	}
	if slices.Contains(known.Names(), name) {
		return nil, usagef("policy %q exists; `kvreplay policies describe %s` shows it", name, name)
	}
	s := &sketch{Name: name, Package: strings.ReplaceAll(name, "-", ""), own: dir != ""}
	if reservedPackage(s.Package) || slices.Contains(groups, name) {
		return nil, usagef("policy name %q: %s has another meaning in Go or kvreplay: choose another name", name, s.Package)
	}
	if s.own {
		module, err := moduleAt(dir, "example.com/"+s.Package)
		s.root, s.dir, s.Import = dir, filepath.Join(dir, s.Package), path.Join(module, s.Package)
		return s, err
	}
	if module, err := moduleAt(".", ""); err != nil || module != moduleOf {
		return nil, usagef("policies new %s: the current folder is not the root of %s; go there, or write a module of your own with --dir FOLDER", name, moduleOf)
	}
	s.dir, s.Import = filepath.Join("policies", s.Package), moduleOf+"/policies/"+s.Package
	return s, nil
}

// moduleAt is the module path of a folder's go.mod, or the given one where there is none.
func moduleAt(dir, otherwise string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // write reports a file in the way
		return otherwise, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the module: %w", err)
	}
	return modfile.ModulePath(text), nil
}

// write writes the files. A package that exists is an error. After an error no file is left.
func (s *sketch) write() (err error) {
	texts := map[string][]byte{}
	templates := map[string]string{"policy.go.tmpl": s.Package + ".go", "policy_test.go.tmpl": s.Package + "_test.go", "reference_test.go.tmpl": "reference_test.go", "main.go.tmpl": "", "card.yaml.tmpl": ""}
	if s.own {
		templates["card.yaml.tmpl"] = submission.CardFile
	}
	for from := range templates { // all of them before the first folder
		texts[from], err = filled(from, map[string]string{"Name": s.Name, "Package": s.Package, "Import": s.Import})
		if err != nil {
			return err
		}
	}
	if err := files.MakeFolder(cmp.Or(s.root, filepath.Dir(s.dir))); err != nil {
		return fmt.Errorf("write the policy's package: %w", err)
	}
	if err := os.Mkdir(s.dir, 0o777); errors.Is(err, fs.ErrExist) {
		return usagef("policies new %s: %s exists: remove it, or choose another name", s.Name, s.dir)
	} else if err != nil {
		return fmt.Errorf("write the policy's package: %w", err)
	}
	written := []string{s.dir}
	defer func() {
		for _, path := range written {
			if err != nil {
				_ = os.RemoveAll(path) // err names a folder that cannot be removed
			}
		}
	}()
	for from, to := range templates {
		if to == "" {
			continue
		}
		if err := writeNew(filepath.Join(s.dir, to), texts[from]); err != nil {
			return err
		}
	}
	if !s.own {
		return nil
	}
	for _, f := range []struct {
		path string
		text []byte
	}{{filepath.Join(s.root, "main.go"), texts["main.go.tmpl"]}, {filepath.Join(s.root, "go.mod"), []byte("module " + path.Dir(s.Import) + "\n\ngo 1.26.0\n")}} {
		err := writeNew(f.path, f.text)
		if errors.Is(err, fs.ErrExist) {
			s.kept = append(s.kept, filepath.Base(f.path)) // existing module files stay unchanged
			continue
		}
		if err != nil {
			return err
		}
		written = append(written, f.path)
	}
	return nil
}

// filled returns the text of a skeleton with names in the place of ${Key}. text/template would have
// the linker keep every exported method of the program.
func filled(from string, names map[string]string) ([]byte, error) {
	text, err := skeleton.ReadFile("skeleton/" + from)
	if err != nil {
		return nil, err
	}
	out := []byte(os.Expand(string(text), func(name string) string { return names[name] }))
	if path.Ext(strings.TrimSuffix(from, ".tmpl")) != ".go" {
		return out, nil
	}
	return format.Source(out)
}

// writeNew writes a file whole or not at all. A file that exists is an error.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name) // else the error names it
	}
	return err
}

// policyTable is the file with the table of policies, from the root of the repository.
var policyTable = filepath.Join("policies", "all", "all.go")

// registerPolicy adds a package's import and entry to the table's file.
func registerPolicy(importPath, entry string) error {
	file := policyTable
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	source := string(text)
	for _, in := range []struct{ behind, line string }{{"import (\n", fmt.Sprintf("\t%q\n", importPath)}, {"policies.NewTable(\n", "\t\t" + entry + ",\n"}} {
		before, after, ok := strings.Cut(source, in.behind)
		if !ok {
			return fmt.Errorf("register: %s has no line %q; add the policy by hand", file, strings.TrimSpace(in.behind))
		}
		source = before + in.behind + in.line + after
	}
	sorted, err := format.Source([]byte(source))
	if err != nil {
		return fmt.Errorf("register in %s: %w", file, err)
	}
	if err := files.Write(file, sorted); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// advice lists the written files and the next commands.
func (s *sketch) advice(registered bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "wrote %s: the policy, its test, its reference\n", s.dir)
	switch {
	case s.own:
		if slices.Contains(s.kept, "main.go") {
			fmt.Fprintf(&b, "kept %s: add %s.Entry to its table\n\n", filepath.Join(s.root, "main.go"), s.Package)
		} else {
			fmt.Fprintf(&b, "wrote %s: kvreplay with this policy\n\n", filepath.Join(s.root, "main.go"))
		}
		fmt.Fprintf(&b, "next, in %s:\n  go get %s@latest && go mod tidy\n  go test ./...\n  go run . replay TRACE --policy %s\n", s.root, moduleOf, s.Name)
		return b.String()
	case registered:
		fmt.Fprintf(&b, "added it to policies/all/all.go\n\nnext:\n")
	default:
		fmt.Fprintf(&b, "\nnext, in policies/all/all.go (or let --register do it):\n  import %q\n  %s.Entry,   in Table\nthen:\n", s.Import, s.Package)
	}
	fmt.Fprintf(&b, "  go test ./policies/%s\n  go run ./cmd/kvreplay replay TRACE --policy %s --policy lru --policy opt\n", s.Package, s.Name)
	return b.String()
}
