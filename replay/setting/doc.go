// Package setting has the settings of a run as texts and values: capacities, warm-ups,
// prefetching, tiers, pools, shapes and outliers. Package run resolves them against a trace.
//
// Start with capacity.go, prefetch.go and combine.go: the largest text form, a small one, and the
// table of mechanisms. Three ideas carry the package:
//
//   - Texts and values are the same. A Parse function reads each type, and String returns a text
//     that parses back. Flags, rows, cell keys and profiles use these texts.
//   - A value is checked without a trace. Parse rejects every text that no trace can serve. The
//     plan of a run checks the rest, as it knows K and the trace's columns.
//   - Mechanisms that do not combine are in one table, each pair with its reason (combine.go).
//     The checks, their messages and the document of combinations read it.
package setting
