// Package systems compares published systems on a machine at equal GPU memory. A system is a YAML
// file: a combination of the mechanisms of packages replay and pipeline. Compare replays each system
// at the largest cache that fits into the GPU, and prices it. Start with these files:
//
//   - system.go reads the files, and data has those of published systems.
//   - compare.go chooses the traces of a system and finds its capacity.
//   - measure.go replays and prices one capacity.
//   - report.go writes the results.
//
// All times are seconds, sizes bytes, and capacities entries of a stream.
package systems
