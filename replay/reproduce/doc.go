// Package reproduce compares figures that papers print with figures that kvreplay computes
// for the same setting. Each comparison has an error and a gate, the largest error allowed.
//
// A paper is a data file, paper.yaml, and a study in Go. The data file holds the printed
// figures and all prose. The study holds the paper's equations and asks the models that
// users run: replay, replay/transfer and replay/pipeline.
//
// # Adding a paper
//
// Start with package ellm, which has equations, tables and statements.
//
//  1. Make a folder with the paper's name and write its paper.yaml. README.md lists the keys.
//  2. Copy printed tables into printed, a row a mapping.
//  3. Write a section for each table or figure that you compare. A section has a title, a
//     method and lines.
//  4. A line is one figure or one statement. It has an item, a unit and a [Kind], which says
//     how much an agreement proves.
//  5. Give a figure its printed number and a gate. Give a statement limits, or let the
//     study decide it.
//  6. List the remaining figures and tables of the paper in gaps, with the reason.
//  7. Write a function that takes a [Study]. It computes its parts with [Study.Compute], so that a
//     user can choose sections. It gets sections from [Study.Section], and rows
//     of printed tables from [Study.Rows].
//  8. Ask models with [Study.Price], [Study.Plan] and [Study.Replay], and give each line its
//     figure with [Draft.Set] or [Draft.Holds].
//  9. Wrap calls that can fail in [Must] or [Check]. They end the study, and the command
//     reports the error.
//  10. Add the paper to package papers, and to the table in README.md. A paper with a [Page] is not
//     part of REPRODUCTION.md.
//  11. Run `go test ./cmd/cli -run Reproduction -update` and read the new part of
//     REPRODUCTION.md.
//  12. State in miss why a line misses its gate, if the reason is known. Otherwise the command
//     fails.
//
// Constants that a paper leaves open are fitted to named cells. Those cells are [Fitted] and
// never count as successes.
package reproduce
