// Package result defines result rows: their fields, their files and the rules that let rows be
// compared. It computes no figure: package board does, and package render prints.
//
// Start with setting.go, row.go and settings.go: what was replayed, what was counted, and which
// rows may be pooled. Three ideas carry the package:
//
//   - A field is declared once. Its tags give its name, its place in files and its part in the
//     rules (fields.go). JSON, CSV, Parquet and --where read that registry. A new mechanism
//     is a new field of Setting.
//   - Rows are equal by their setting. CellID names a cell by its setting, policy and capacity
//     (identity.go). Newer rows replace older ones of the same cell. CheckSettings rejects rows
//     that differ in a setting that no table shows.
//   - A row is checked before use. Check tests the sums and bounds that every row fulfils
//     (check.go), so readers of rows trust their counts. FindIncomplete compares rows with a plan
//     and lists the cells that are missing (incomplete.go).
package result
