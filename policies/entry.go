package policies

import (
	"fmt"
	"sort"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Traits describe a policy, apart from its rule.
type Traits struct {
	Offline  bool   // reads the future: a bound, never ranked with contenders
	Bypasses bool   // may keep demanded blocks out of the cache. Bounded by opt-bypass, not by opt
	Windowed bool   // has no capacity and keeps the blocks that its rule names (window:N)
	Random   bool   // draws from Scope.Seed: results depend on the seed of the run
	Sized    bool   // reads Scope.Capacity. All other policies leave the capacity to the engine
	Stack    bool   // a larger capacity never misses more (inclusion property)
	Aligned  int    // adding a multiple of it to all block ids changes nothing. 0 means 1: ids only break ties
	Lossy    bool   // drops blocks for good. Its loss is reported, and it is never ranked with exact policies
	Memory   string // state per block of the context, as text: "8 B"
	Cost     string // work per change of the demand, as text: "O(1)"
}

// Entry is one policy in the table.
type Entry struct {
	Name    string   // as users write it
	Aliases []string // other names that users may write. Rows state Name
	Summary string   // one line: the rule
	Source  string   // citation
	Usage   string   // the form of its options, empty if it has none: "window:N, N ≥ 0 steps"
	Example string   // options for tests, and for the help if an option is required: "2"
	Doc     string   // package comment of its source (PackageComment), for `policies describe`. May be empty
	Traits  Traits
	// Submitted is true for a policy that was submitted to the board. The groups all and lossy leave it
	// out.
	Submitted bool
	// New parses the text after the colon, "" without one. It returns a factory of instances and the
	// canonical text of the options, which parses back.
	New func(options string) (make func() Policy, canonical string, err error)
}

// Submission returns the entry of a submitted policy.
func Submission(e Entry) Entry {
	e.Submitted = true
	return e
}

// Spec is a policy with its options. It can make instances.
type Spec struct {
	Entry   *Entry
	Options string // canonical, empty if there are none
	Make    func() Policy
}

// Name returns the policy's name in result rows: "lru", "window:2".
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

// Table is a list of policies with unique names.
type Table []Entry

// NewTable checks that names and aliases are unique and returns the table sorted by name.
func NewTable(entries ...Entry) Table {
	t := append(Table(nil), entries...)
	sort.Slice(t, func(i, j int) bool { return t[i].Name < t[j].Name })
	taken := map[string]bool{}
	for _, e := range t {
		for _, name := range append([]string{e.Name}, e.Aliases...) {
			if taken[names.Fold(name)] {
				panic(fmt.Sprintf("policies: two entries named %q", name))
			}
			taken[names.Fold(name)] = true
		}
	}
	return t
}

// Names lists the table's names.
func (t Table) Names() []string {
	return names.List(t.spellings())
}

// Canonical replaces the name in text ("name" or "name:options") by the table's spelling. It
// returns text unchanged if the table has no such name.
func (t Table) Canonical(text string) string {
	name, options, more := strings.Cut(text, ":")
	found, err := names.Find("policy", name, t.spellings())
	switch {
	case err != nil:
		return text
	case more:
		return found + ":" + options
	}
	return found
}

// spellings returns the names of the table with their aliases.
func (t Table) spellings() []names.Name {
	return slice.Map(t, func(e Entry) names.Name { return names.Name{Name: e.Name, Aliases: e.Aliases} })
}

// Parse reads "name" or "name:options". The name may be an alias, in any case. An unknown
// name is an error that offers the nearest names.
func (t Table) Parse(text string) (Spec, error) {
	name, options, _ := strings.Cut(text, ":")
	if strings.HasSuffix(name, ".py") {
		return Spec{}, fmt.Errorf("policy %.60q is a file, expected a name. --policy \"exec:python3 FILE\" runs a file", text)
	}
	name, err := names.Find("policy", name, t.spellings())
	if err != nil {
		return Spec{}, err
	}
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
	panic("policies: no entry is named " + name)
}

// NoOptions returns an Entry.New for a policy without options.
func NoOptions(make func() Policy) func(string) (func() Policy, string, error) {
	return func(options string) (func() Policy, string, error) {
		if options != "" {
			return nil, "", fmt.Errorf("unexpected options %q", options)
		}
		return make, "", nil
	}
}

// WithOptions returns an Entry.New for a policy whose options are fields. The fields begin with the
// defaults.
func WithOptions[P any, M interface {
	*P
	Policy
}](defaults P, options func(*P) []Option) func(string) (func() Policy, string, error) {
	return func(text string) (func() Policy, string, error) {
		p := defaults
		canonical, err := ParseOptions(text, options(&p)...)
		return func() Policy { own := p; return M(&own) }, canonical, err
	}
}

// PackageComment returns the package comment at the head of a Go file's text, without its slashes.
// A policy shows it as its documentation.
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
