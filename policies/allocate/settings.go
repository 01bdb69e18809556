package allocate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// identity are the fields of a row that say which cell it is and do not change what
// another cell counts; the policy and its traits are the same for all rows at hand. The
// fingerprint is that of one of the windows.
var identity = []string{"schema", "trace", "trace_digest", "model", "selector", "selector_recall", "policy", "options", "policy_fingerprint", "depends_on", "offline", "bypasses", "lossy", "capacity", "capacity_entries", "layers", "requests"}

// settings are the fields that rows must agree in to be pooled, as they change counts:
// all that stand before the part (metrics/ROWS.md, "Which cell"), less identity, and
// those of the engine.
var settings = settingFields()

func settingFields() (fields []reflect.StructField) {
	all := reflect.VisibleFields(reflect.TypeFor[result.Row]())
	part := slices.IndexFunc(all, func(f reflect.StructField) bool { return nameOf(f) == "request_id" })
	for i, f := range all {
		name := nameOf(f)
		if i < part && !slices.Contains(identity, name) || name == "engine" || name == "seed" {
			fields = append(fields, f)
		}
	}
	return fields
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// textOf is a field's value as --where takes it.
func textOf(r *result.Row, f reflect.StructField) string {
	v := reflect.ValueOf(r).Elem().FieldByIndex(f.Index)
	if v.Kind() != reflect.Pointer {
		return fmt.Sprint(v.Interface())
	}
	if v.IsNil() {
		return "null"
	}
	return fmt.Sprint(v.Elem().Interface())
}

// checkSettings refuses rows that cannot be pooled, and a trace that would count twice.
func checkSettings(rows []result.Row) error {
	first, digests, names := &rows[0], map[string]string{}, map[string]string{}
	fingerprints := map[string]string{}
	for i := range rows {
		r := &rows[i]
		for _, f := range settings {
			if a, b := textOf(first, f), textOf(r, f); a != b {
				name := nameOf(f)
				return fmt.Errorf("rows that differ in what changes counts are never pooled: %s=%s (%s), %s=%s (%s); choose with --where %s=%s",
					name, a, first.Trace, name, b, r.Trace, name, a)
			}
		}
		if d, ok := digests[r.Trace]; ok && d != r.TraceDigest {
			return fmt.Errorf("two traces are named %s, with digests %s and %s; choose with --where trace_digest=%s", r.Trace, d, r.TraceDigest, d)
		}
		if n, ok := names[r.TraceDigest]; ok && n != r.Trace {
			return fmt.Errorf("the same trace (digest %s) under two names, %s and %s, would count twice; choose with --where trace=%s", r.TraceDigest, n, r.Trace, n)
		}
		if f, ok := fingerprints[r.Policy]; ok && f != r.PolicyFingerprint {
			return fmt.Errorf("policy %s was edited between these replays: policy_fingerprint=%s and %s; replay the older rows again, or leave them out with --where policy_fingerprint!=%s",
				r.Policy, f, r.PolicyFingerprint, f)
		}
		fingerprints[r.Policy] = r.PolicyFingerprint
		digests[r.Trace], names[r.TraceDigest] = r.TraceDigest, r.Trace
	}
	return nil
}
