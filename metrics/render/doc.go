// Package render prints result rows, boards and comparisons: tables for a terminal and in
// Markdown, CSV, and curves as SVG. It computes no statistic.
//
// Start with board.go, view.go and figures.go: the tables of a board, the choice of how much to
// show, and the text of a figure. Three ideas carry the package:
//
//   - One report, several forms. Board and Comparison return a table.Report, and package table
//     writes it as text or Markdown. CSV has every value of a board, one policy and cell a line
//     (csv.go).
//   - A View decides how much is shown. The zero View fits a terminal of 100 columns. Whole is
//     the view of documents.
//   - Digits follow the interval. A figure is rounded to the digits that its interval supports
//     (unit in figures.go). Labels that limit the figures are in brackets in titles (labels.go).
//
// Page writes boards as one HTML file (page.go). Its scripts read the data of page_data.go.
//
// Summary and Rows print rows without a board (rows_summary.go, rows_table.go). Plots are in
// curves.go and ranking_plot.go.
package render
