package corpus

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// The latest version has the digests of the ranked traces that lie here.
func TestLatestVersion(t *testing.T) {
	all := versions()
	v := all[len(all)-1]
	have := map[string]string{}
	for _, pattern := range []string{"deep_*.parquet", "wide_*.parquet"} {
		paths, err := filepath.Glob(pattern)
		fatal.If(t, err)
		for _, path := range paths {
			f, err := trace.Open(path)
			fatal.If(t, err)
			defer f.Close()
			if have[path], err = f.Digest(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !maps.Equal(have, v.Digests) {
		t.Errorf("the traces here have %v, version %d has %v: add a version", have, v.Number, v.Digests)
	}
}

// VERSIONS.md lists the parts of each version.
func TestVersionsAreCurrent(t *testing.T) {
	var lines strings.Builder
	lines.WriteString("| version | open | held out |\n|---|---|---|\n")
	for _, v := range versions() {
		names := func(s Split) string {
			return strings.ReplaceAll("`"+strings.Join(v.Part(s), "`, `")+"`", ".parquet", "")
		}
		fmt.Fprintf(&lines, "| %d | %s | %s |\n", v.Number, names(Open), names(HeldOut))
	}
	text, err := os.ReadFile("VERSIONS.md")
	fatal.If(t, err)
	if !strings.Contains(string(text), "\n"+lines.String()+"\n") {
		t.Errorf("VERSIONS.md lacks the table of parts:\n%s", lines.String())
	}
}

// The parts are disjoint and have all traces. They do not depend on the order of the file, and another
// version holds out other traces.
func TestParts(t *testing.T) {
	v := &versions()[0]
	open, held := v.Part(Open), v.Part(HeldOut)
	if len(open) != 4 || len(held) != 3 || !slices.Equal(slices.Sorted(slices.Values(slices.Concat(open, held))), v.Part(Whole)) {
		t.Errorf("open %v, held out %v", open, held)
	}
	rotated := false
	for n := 2; n < 10; n++ {
		other := Version{n, v.Digests}
		rotated = rotated || !slices.Equal(other.Part(HeldOut), held)
	}
	if !rotated {
		t.Error("ten versions hold out the same traces")
	}
	for _, s := range []Split{Whole, Open, HeldOut} {
		digests := map[string]string{}
		for _, name := range v.Part(s) {
			digests[name] = v.Digests[name]
		}
		if found, part := Find(digests); found == nil || found.Number != v.Number || part != s {
			t.Errorf("%s is found as %v, %s", s, found, part)
		}
		digests[v.Part(s)[0]] = "sha256:other"
		if found, _ := Find(digests); found != nil {
			t.Errorf("another digest is found as version %d", found.Number)
		}
	}
}
