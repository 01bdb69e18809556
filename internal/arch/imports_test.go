// Package arch states which packages of the module may import which.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

const module = "github.com/kvreplay/kvreplay/"

// allowed lists, for packages that begin with a prefix, the prefixes that they may import.
// The longest prefix counts. Packages of one prefix may import each other, and all may
// import internal.
var allowed = []struct {
	from string
	to   []string
}{
	{"internal", nil},
	{"trace", nil},
	{"metrics/result", nil},
	{"metrics/board", []string{"metrics/result"}},
	{"metrics/render", []string{"metrics/board", "metrics/render/figure", "metrics/result"}},
	{"metrics/render/figure", nil},
	{"metrics/submission", []string{"datasets", "metrics/board", "metrics/result"}},
	{"metrics/rowstest", []string{"metrics/result"}},
	{"policies", nil},
	{"policies/all", []string{"policies"}},
	{"policies/policytest", []string{"metrics/result", "policies", "replay", "replay/referee", "replay/replaytest", "trace"}},
	{"replay/setting", []string{"metrics/result", "policies"}},
	{"replay/allocate", []string{"metrics/result", "policies", "replay/setting", "trace"}},
	{"replay/demand", []string{"policies", "replay/setting", "trace"}},
	{"replay/cache", []string{"policies", "replay/demand", "replay/referee", "replay/setting", "trace"}},
	{"replay/run", []string{"metrics/result", "policies", "replay/allocate", "replay/cache", "replay/demand", "replay/referee", "replay/setting", "trace"}},
	{"replay", []string{"metrics/result", "policies", "replay/allocate", "replay/cache", "replay/demand", "replay/run", "replay/setting", "trace"}},
	{"replay/referee", []string{"trace"}},
	{"replay/replaytest", []string{"trace"}},
	{"replay/hardware", nil},
	{"replay/kernel", []string{"replay/hardware"}},
	{"replay/collective", []string{"replay/hardware"}},
	{"replay/transfer", []string{"replay/hardware", "trace"}},
	{"replay/transfer/fit", []string{"replay/hardware", "replay/transfer"}},
	{"replay/pipeline", []string{"metrics/result", "policies", "replay", "replay/collective", "replay/hardware", "replay/kernel", "replay/pipeline/operator", "replay/pipeline/schedule", "replay/setting", "replay/transfer"}},
	{"replay/pipeline/operator", []string{"policies", "replay/collective", "replay/hardware", "replay/kernel"}},
	{"replay/pipeline/pipelinetest", []string{"policies/all", "replay", "replay/hardware", "replay/pipeline/schedule", "trace"}},
	{"replay/pipeline/plan", []string{"metrics/result", "replay/hardware", "replay/pipeline", "replay/pipeline/schedule"}},
	{"replay/pipeline/schedule", []string{"policies", "replay/hardware", "replay/transfer"}},
	{"replay/advice", []string{"metrics/board", "metrics/result", "replay/hardware", "replay/pipeline", "replay/pipeline/plan", "replay/pipeline/schedule"}},
	{"replay/serial", []string{"metrics/result", "policies", "policies/all", "replay", "replay/setting", "trace"}},
	{"replay/batch", []string{"replay", "trace"}},
	{"replay/verify", []string{"metrics/board", "metrics/result", "policies", "replay", "replay/allocate", "replay/setting", "trace"}},
	{"replay/reproduce", []string{"metrics/render/figure", "metrics/result", "policies/all", "replay", "replay/allocate", "replay/hardware", "replay/kernel", "replay/pipeline", "replay/pipeline/operator", "replay/pipeline/plan", "replay/pipeline/schedule", "replay/serving", "replay/transfer", "replay/transfer/fit", "trace"}},
	{"replay/serving", []string{"replay/hardware", "replay/pipeline", "replay/pipeline/operator"}},
	{"replay/serving/experiment", []string{"datasets", "metrics/board", "metrics/render", "metrics/render/figure", "replay/pipeline", "replay/pipeline/schedule", "replay/serving", "replay/systems", "trace"}},
	{"replay/systems", []string{"metrics/result", "policies", "replay", "replay/allocate", "replay/hardware", "replay/pipeline", "replay/pipeline/operator", "replay/pipeline/schedule", "trace"}},
	{"datasets", []string{"trace"}},
	{"datasets/card", []string{"datasets", "metrics/render/figure", "policies/all", "replay", "trace"}},
	{"datasets/synthetic", []string{"trace"}},
	{"datasets/synthetic/twin", []string{"datasets/synthetic", "metrics/result", "policies", "replay", "trace"}},
	{"scripts", []string{"metrics/render"}},
	{"cmd", []string{"datasets", "datasets/card", "datasets/synthetic", "datasets/synthetic/twin", "metrics/board", "metrics/render", "metrics/render/figure", "metrics/result", "metrics/submission",
		"policies", "policies/all", "policies/policytest", "replay", "replay/advice", "replay/allocate", "replay/batch", "replay/collective", "replay/hardware", "replay/kernel", "replay/pipeline", "replay/pipeline/operator", "replay/pipeline/plan", "replay/pipeline/schedule", "replay/reproduce", "replay/serial", "replay/serving", "replay/serving/experiment", "replay/setting", "replay/systems", "replay/transfer", "replay/transfer/fit", "replay/verify", "trace"}},
}

// forbidden are the libraries that replay and the policies do not link: plots, PDF, fonts and
// widths of characters on terminals.
var forbidden = []string{"gonum.org/v1/plot", "codeberg.org/go-pdf", "codeberg.org/go-fonts", "github.com/mattn/go-runewidth"}

// listed is a package as go list describes it.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// list describes the packages that match patterns, without their tests.
func list(t *testing.T, patterns ...string) (packages []listed) {
	t.Helper()
	noteFolders(t)
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps"}, patterns...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("go list: %s", exit.Stderr)
	}
	fatal.If(t, err)
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// noteFolders reads the folders of the module. go test does not see the files that go list
// reads. It repeats a cached result unless a folder that the test itself read has changed.
func noteFolders(t *testing.T) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	fatal.If(t, err)
}

// within reports whether a package is that of a prefix, or in its folder.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// room is the index in allowed of the longest prefix of a package, -1 without any.
func room(path string) int {
	at := -1
	for i, a := range allowed {
		if within(path, a.from) && (at < 0 || len(a.from) > len(allowed[at].from)) {
			at = i
		}
	}
	return at
}

// mayImport reports whether the table allows an import.
func mayImport(from, to string) bool {
	i, j := room(from), room(to)
	if i < 0 || j < 0 {
		return false
	}
	return i == j || allowed[j].from == "internal" || slices.Contains(allowed[i].to, allowed[j].from)
}

func TestImports(t *testing.T) {
	used := map[[2]int]bool{}
	for _, p := range list(t, module+"...") {
		from := strings.TrimPrefix(p.ImportPath, module)
		if room(from) < 0 {
			t.Errorf("%s is not in the table: add its folder with the packages that it may import", from)
		}
		for _, path := range p.Imports {
			to, ours := strings.CutPrefix(path, module)
			if !ours {
				continue
			}
			if !mayImport(from, to) {
				t.Errorf("%s imports %s, which the table does not allow", from, to)
			}
			used[[2]int{room(from), room(to)}] = true
		}
	}
	for i, a := range allowed {
		for _, to := range a.to {
			if !used[[2]int{i, room(to)}] {
				t.Errorf("nothing in %s imports %s: remove it from the table", a.from, to)
			}
		}
	}
}

// The table has no way from a package back to itself: imports only point down.
func TestTableHasNoCycle(t *testing.T) {
	var walk func(at string, path []string)
	walk = func(at string, path []string) {
		if i := slices.Index(path, at); i >= 0 {
			t.Errorf("cycle: %s", strings.Join(append(path[i:], at), " → "))
			return
		}
		for _, a := range allowed {
			if a.from == at {
				for _, to := range a.to {
					walk(to, append(slices.Clone(path), at))
				}
			}
		}
	}
	for _, a := range allowed {
		if !t.Failed() {
			walk(a.from, nil)
		}
	}
}

func TestEngineLinksNoPlots(t *testing.T) {
	for _, p := range list(t, module+"replay", module+"policies/...") {
		for _, dep := range p.Deps {
			if i := slices.IndexFunc(forbidden, func(prefix string) bool { return within(dep, prefix) }); i >= 0 {
				t.Errorf("%s links %s", p.ImportPath, dep)
			}
		}
	}
}
