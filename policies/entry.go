package policies

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Traits are what a policy is, apart from what it does.
type Traits struct {
	Offline  bool   // looks into the future: a bound, never ranked with contenders
	Bypasses bool   // may keep demanded blocks out of the cache; bounded by opt-bypass, not by opt
	Windowed bool   // has no capacity: keeps what its rule says (window:N)
	Random   bool   // draws from Scope.Seed: results depend on the seed of the run
	Sized    bool   // looks at Scope.Capacity: all others leave the capacity to the engine
	Stack    bool   // a larger capacity never misses more (inclusion property)
	Lossy    bool   // drops for good: its loss is reported, and it is never ranked with exact ones
	Memory   string // state per block of the context, as text: "8 B"
	Cost     string // work per change of the demand, as text: "O(1)"
}

// Entry is a line of the policy table.
type Entry struct {
	Name    string // as users write it
	Summary string // one line: the rule
	Source  string // citation
	Usage   string // the form of its options, empty without: "window:N, N ≥ 0 steps"
	Example string // options to test it with, and to show it with where it cannot do without: "2"
	Doc     string // its package comment, for `policies describe`: PackageComment of its source; may be empty
	Traits  Traits
	// New parses the text after the colon ("" without one) and returns a factory of
	// instances and the canonical text of the options, which parses back.
	New func(options string) (make func() Policy, canonical string, err error)
}

// Spec is a policy with its options, ready to make instances.
type Spec struct {
	Entry   *Entry
	Options string // canonical, empty without
	Make    func() Policy
}

// Name is the policy as result rows name it: "lru", "window:2".
func (s Spec) Name() string {
	if s.Options == "" {
		return s.Entry.Name
	}
	return s.Entry.Name + ":" + s.Options
}

// Bypasses reports whether the policy as configured may keep demanded blocks out.
func (s Spec) Bypasses() bool {
	_, ok := s.Make().(Bypasser)
	return ok
}

// Table is a list of policies; names are unique.
type Table []Entry

// NewTable checks that names are unique and returns the table sorted by name.
func NewTable(entries ...Entry) Table {
	t := append(Table(nil), entries...)
	sort.Slice(t, func(i, j int) bool { return t[i].Name < t[j].Name })
	for i := 1; i < len(t); i++ {
		if t[i].Name == t[i-1].Name {
			panic(fmt.Sprintf("policies: two entries named %q", t[i].Name))
		}
	}
	return t
}

// Names lists the table's names.
func (t Table) Names() []string {
	names := make([]string, len(t))
	for i := range t {
		names[i] = t[i].Name
	}
	return names
}

// Parse reads "name" or "name:options". An unknown name is an error that offers the
// nearest names.
func (t Table) Parse(text string) (Spec, error) {
	name, options, _ := strings.Cut(text, ":")
	for i := range t {
		if t[i].Name != name {
			continue
		}
		make, canonical, err := t[i].New(options)
		if err != nil {
			usage := t[i].Usage
			if usage == "" {
				usage = name + " takes no options"
			}
			return Spec{}, fmt.Errorf("policy %q: %w (%s)", text, err, usage)
		}
		return Spec{Entry: &t[i], Options: canonical, Make: make}, nil
	}
	return Spec{}, fmt.Errorf("unknown policy %q%s; known: %s", name, Nearest(name, t.Names()), strings.Join(t.Names(), ", "))
}

// Nearest returns ", did you mean a or b?" for the known names nearest to name, or
// nothing where none is near.
func Nearest(name string, known []string) string { return DidYouMean(Near(name, known)) }

// DidYouMean is ", did you mean a or b?", or nothing for no names.
func DidYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", did you mean " + strings.Join(names, " or ") + "?"
}

// Some lists a few of many names.
func Some(names []string) string {
	const most = 6
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}

// Near lists the known names near to name, nearest first: those that one edit in three
// letters leads to, and those that begin with it. One that differs in case alone stands
// for itself.
func Near(name string, known []string) (near []string) {
	name = strings.ToLower(name)
	distance := map[string]int{}
	for _, k := range known {
		d := levenshtein.ComputeDistance(name, strings.ToLower(k))
		if d == 0 {
			return []string{k}
		}
		if _, twice := distance[k]; twice {
			continue
		}
		if d <= max(1, len(k)/3) || len(name) > 1 && strings.HasPrefix(k, name) {
			near, distance[k] = append(near, k), d
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
	return near
}

// NoOptions is New for a policy without options.
func NoOptions(make func() Policy) func(string) (func() Policy, string, error) {
	return func(options string) (func() Policy, string, error) {
		if options != "" {
			return nil, "", fmt.Errorf("unexpected options %q", options)
		}
		return make, "", nil
	}
}

// PackageComment returns the package comment at the head of a Go file's text, without
// its slashes: what a policy shows as its documentation.
//
//	//go:embed lru.go
//	var source string
func PackageComment(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "//")
		if !ok {
			break
		}
		b.WriteString(strings.TrimPrefix(text, " ") + "\n")
	}
	return b.String()
}
