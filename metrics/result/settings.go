package result

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Rows are comparable only if everything except the policy and the capacity is equal. These are the
// fields that must be equal. The tags of Setting give most of them.
var (
	runFields    = settingsThat(func(role string) bool { return role == "run" || role == "version" })
	traceFields  = settingsThat(func(role string) bool { return role == "" || role == "about" })
	placeFields  = settingsThat(func(role string) bool { return role == "place" })
	policyFields = fieldsNamed(policySettings...)
	// partFields must be equal over the rows that exact policies have of one part of a place. Lossy
	// methods divide a budget in their own way.
	partFields = fieldsNamed("capacity_entries")

	// policySettings must be equal over all rows of a policy.
	policySettings = []string{"options", "offline", "bypasses", "lossy"}
)

// ColdStart is the warm-up that leaves caches empty (SEMANTICS S8).
const ColdStart = "cold"

// CheckSettings rejects rows that differ in a hidden setting. The error lists the settings, their
// values and how to choose.
func CheckSettings(rows []*Row) error {
	kinds := slice.Map(slice.Runs(rows, SameKind), func(same []*Row) Kind { return KindOf(same[0], same) })
	divided := slices.ContainsFunc(kinds, func(k Kind) bool { return !k.row.Lossy && strings.HasPrefix(k.memory, dividedMemory) })
	if known, err := CheckKinds(kinds); known && err == nil && !divided {
		return nil
	}
	return checkSettings(rows) // the error counts rows
}

// SameKind reports whether two rows are of one cell and agree in all that the checks of settings
// compare, except memory.
func SameKind(a, b *Row) bool {
	return a.Setting.equal(&b.Setting) && SameCell(a, b) && a.Options == b.Options && a.PolicyFingerprint == b.PolicyFingerprint &&
		a.DependsOn == b.DependsOn && a.Offline == b.Offline && a.Bypasses == b.Bypasses && a.Lossy == b.Lossy
}

// Kind is a cell for CheckKinds. Most rows of a cell differ only in counts and parts.
type Kind struct {
	row    *Row
	memory string // of its rows
}

// KindOf returns the kind of a cell. The rows are sorted and of the kind of the first, which KindOf
// keeps.
func KindOf(first *Row, rows []*Row) Kind { return Kind{first, memoryOf(rows)} }

// CheckKinds is CheckSettings of the rows of cells. It returns false if only CheckSettings can check the
// rows, because the memory of a place differs.
func CheckKinds(kinds []Kind) (known bool, err error) {
	memory := map[string]string{} // of the exact rows of a place, by its key
	rows := make([]*Row, len(kinds))
	for i, k := range kinds {
		if rows[i] = k.row; k.row.Lossy {
			continue
		}
		place := placeKey(k.row)
		if other, ok := memory[place]; ok && other != k.memory {
			return false, nil
		}
		memory[place] = k.memory
	}
	return true, checkSettings(rows)
}

// dividedMemory begins the memory of a cell whose parts differ.
const dividedMemory = "parts "

// memoryOf returns a text that cells of equal memory share: the entries of all parts if they are
// equal, else a digest of those of each part.
func memoryOf(rows []*Row) string {
	entries := &rowFields[fieldIndex["capacity_entries"]]
	if !slices.ContainsFunc(rows, func(r *Row) bool { return !entries.same(r, rows[0]) }) {
		return entries.text(rows[0])
	}
	digest := sha256.New()
	for _, r := range rows {
		fmt.Fprintf(digest, "%s\x00%s\n", PartOf(r), entries.text(r))
	}
	return dividedMemory + string(digest.Sum(nil))
}

// checkSettings is CheckSettings, row by row.
func checkSettings(rows []*Row) error {
	if err := checkEqual("the rows", runFields, rows); err != nil {
		return err
	}
	for _, g := range GroupBy(rows, func(r *Row) string { return r.Trace }) {
		if err := checkEqual("the rows of trace "+g.Key, traceFields, g.Rows); err != nil {
			return err
		}
	}
	for _, g := range GroupBy(rows, func(r *Row) string { return r.Policy }) {
		if err := checkEqual("the rows of policy "+g.Key, policyFields, g.Rows); err != nil {
			return err
		}
	}
	if err := checkBehaviours(rows); err != nil {
		return err
	}
	if err := checkPlaces(rows); err != nil {
		return err
	}
	f := rowFields[fieldIndex["warmup"]]
	if values := distinct(f, rows); len(values) > 1 && slices.Contains(values, ColdStart) {
		return fmt.Errorf("cold rows cannot be pooled with warmed ones:\n%s", differences([]field{f}, rows))
	}
	return checkCopies(rows)
}

// CheckPooled rejects rows whose counts cannot be pooled over traces. They differ in a setting,
// apart from those that describe or select from a trace, or a trace would count twice.
func CheckPooled(rows []*Row) error {
	own := []string{"trace", "trace_digest", "layers", "requests"}
	fields := slices.DeleteFunc(append(settingsThat(func(role string) bool { return role != "about" }), fieldsNamed("tier", "above", "labels")...),
		func(f field) bool { return slices.Contains(own, f.name) })
	if err := checkEqual("the rows", fields, rows); err != nil {
		return err
	}
	for _, g := range GroupBy(rows, func(r *Row) string { return r.Trace }) {
		if err := checkEqual("the rows of trace "+g.Key, fieldsNamed("trace_digest"), g.Rows); err != nil {
			return err
		}
	}
	if err := checkCopies(rows); err != nil {
		return err
	}
	return checkBehaviours(rows)
}

// checkBehaviours rejects rows of a policy that was edited between their replays, and rows that
// depend on such a policy. Some of the rows have its old decisions and some its new ones.
func checkBehaviours(rows []*Row) error {
	for _, g := range GroupBy(rows, func(r *Row) string { return r.Policy }) {
		if err := checkUnedited("policy "+g.Key+" was", "policy_fingerprint", g.Rows); err != nil {
			return err
		}
	}
	for _, g := range GroupBy(rows, func(r *Row) string { return strings.Join([]string{r.Policy, OrDash(r.Capacity), r.Above}, "\x00") }) {
		if err := checkUnedited("policies on which "+g.Rows[0].Policy+" depends were", "depends_on", g.Rows); err != nil {
			return err
		}
	}
	return nil
}

func checkUnedited(what, name string, rows []*Row) error {
	f := rowFields[fieldIndex[name]]
	values := distinct(f, rows)
	if len(values) < 2 {
		return nil
	}
	return fmt.Errorf("%s edited between these replays, so the rows cannot be pooled:\n%sreplay the older rows again, or leave some out, as with --where '%s!=%s'",
		what, examples(f, rows), name, values[0])
}

// checkPlaces rejects rows of one trace and capacity with different memory.
func checkPlaces(rows []*Row) error {
	for _, g := range GroupBy(rows, placeKey) {
		first := g.Rows[0]
		what := "the rows of " + CellName(first)
		if first.Capacity != nil {
			what = fmt.Sprintf("the rows of trace %s at %s", first.Trace, *first.Capacity)
		}
		if err := checkEqual(what, placeFields, g.Rows); err != nil {
			return err
		}
		_, exact := Split(g.Rows, func(r *Row) bool { return r.Lossy })
		for _, p := range GroupBy(exact, func(r *Row) string { return PartOf(r).String() }) {
			if err := checkEqual(fmt.Sprintf("%s (%s)", what, p.Key), partFields, p.Rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeKey returns a text that rows of the same requested memory share. A policy without capacity
// has its own place, and so does a tier below one cache.
func placeKey(r *Row) string {
	own := ""
	if r.Capacity == nil {
		own = r.Policy
	}
	return strings.Join([]string{r.Trace, OrDash(r.Capacity), own, r.Above, strconv.Itoa(r.Tier)}, "\x00")
}

// SplitCold separates the rows of cold starts from warmed ones. They are never pooled, and each
// part makes its own board. A part that has all of the rows is the slice itself.
func SplitCold(rows []Row) (warmed, cold []Row) {
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Warmup == ColdStart }) {
		return rows, nil
	}
	cold, warmed = slice.Partition(rows, func(r *Row) bool { return r.Warmup == ColdStart })
	return warmed, cold
}

// checkCopies rejects one trace under two names, because it would count twice.
func checkCopies(rows []*Row) error {
	for _, g := range GroupBy(rows, func(r *Row) string { return r.TraceDigest }) {
		f := rowFields[fieldIndex["trace"]]
		if g.Key != "" && len(distinct(f, g.Rows)) > 1 {
			return fmt.Errorf("one trace (digest %s) has several names and would count several times:\n%s", g.Key, differences([]field{f}, g.Rows))
		}
	}
	return nil
}

func checkEqual(what string, fields []field, rows []*Row) error {
	differ := slice.Filter(fields, func(f field) bool {
		return slices.ContainsFunc(rows, func(r *Row) bool { return !f.same(r, rows[0]) })
	})
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%s differ in settings that change counts, so they cannot be pooled:\n%s", what, differences(differ, rows))
}

// differences lists the values of the fields with an example of each, and the filter
// that keeps the first.
func differences(fields []field, rows []*Row) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(examples(f, rows))
	}
	f := fields[0]
	fmt.Fprintf(&b, "choose with --where, as in --where %s", printable.ShellWord(f.name+"="+distinct(f, rows)[0]))
	return b.String()
}

// examples lists the values of a field, one per line, with a cell that has it.
func examples(f field, rows []*Row) string {
	var b strings.Builder
	for _, v := range distinct(f, rows) {
		same, _ := Split(rows, func(r *Row) bool { return f.text(r) == v })
		r := same[0]
		fmt.Fprintf(&b, "  %s=%s in %d rows, as %s, %s at %s\n", f.name, v, len(same), r.Trace, r.Policy, OrDash(r.Capacity))
	}
	return b.String()
}

// Group is the rows that share a key.
type Group struct {
	Key  string
	Rows []*Row
}

// GroupBy splits rows by key. Groups are sorted by key, and rows keep their order.
func GroupBy(rows []*Row, key func(*Row) string) []Group {
	alike := slice.Group(rows, func(r **Row) string { return key(*r) })
	groups := slice.Map(alike, func(rows []*Row) Group { return Group{key(rows[0]), rows} })
	slice.Sort(groups, func(a, b Group) int { return strings.Compare(a.Key, b.Key) })
	return groups
}
