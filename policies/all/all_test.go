package all_test

import (
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
)

// Every policy shows its own package comment, with the parts that policies/README.md requires.
func TestEveryPolicyIsDocumented(t *testing.T) {
	table := all.Table()
	for _, e := range table {
		spec, err := table.Parse(strings.TrimSuffix(e.Name+":"+e.Example, ":"))
		fatal.If(t, err)
		pkg := path.Base(reflect.TypeOf(spec.Make()).Elem().PkgPath())
		if !strings.HasPrefix(e.Doc, "Package "+pkg+" ") {
			t.Errorf("%s: the Doc of its entry begins with %.40q, expected the comment of package %s", e.Name, e.Doc, pkg)
		}
		for _, part := range []string{"\nSource:", "Cost:", "Memory:"} {
			if !strings.Contains(e.Doc, part) {
				t.Errorf("%s: its documentation has no %q", e.Name, strings.TrimSpace(part))
			}
		}
	}
}
