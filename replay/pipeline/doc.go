// Package pipeline prices a replay's misses in time. A profile (package replay) states the fetches
// of each layer and step. Package hardware describes the machine and the model. Package transfer
// prices bytes on links and drives. All times are seconds, sizes bytes, and rates bytes per second.
// Price is the entry point. Start with these files:
//
//   - price.go runs a schedule over the steps of a batch (batch.go) of a profile (profile.go).
//     Scaling (scaling.go) maps the profile's counts to the model's.
//   - miss.go turns the counts of one layer into the seconds of its transfers and bytes. Package
//     transfer has the formulas. kernels.go takes the times of computation from package kernel,
//     and operators.go has those of a roofline.
//   - entry.go has the forms in which KV moves, selection.go the methods that find the Top-K, and
//     lookup.go the structures that blocks are looked up in. Each is a table.
//   - calibrate.go makes the choices that a schedule leaves open, such as its micro-batches.
//
// Package schedule places the operations of a priced step.
//
// Boards price rows in the place of profiles (row_pricer.go). Package board takes these times as
// linear in the misses of a request. Package transfer has the formula for fetches from several
// tiers (tiers.go).
//
// parallel.go divides a model or its routed experts among GPUs. Package collective prices the communication between them.
//
// prefill.go prices the prompts of equal requests. engine.go has the overhead of programs that
// launch kernels.
//
// memory.go computes the memory that a batch needs. pricer.go prices several batches. Package plan searches
// the fastest batch, schedule and cell.
// result.go, report.go and assumptions.go write the results.
package pipeline
