// Package pipeline prices a replay's misses in time. It turns the counts of each layer and step of a profile
// (package replay) into operators and transfers, and runs a schedule over them. Package hardware
// describes the machine and the model. All times are seconds, sizes bytes, and rates bytes per second.
//
// These packages have parts of a price:
//
//   - operator prices the operators of a layer: products, attention, selection, lookups, and the launches of
//     an engine.
//   - schedule places the operations of a priced step on the resources of a GPU and its host.
//   - transfer, next to this folder, prices bytes on links and drives.
//
// Package plan searches the fastest batch, schedule and cell by these prices.
//
// Price is the entry point. Start with these files:
//
//   - price.go runs a schedule over the steps of a batch (batch.go) of a profile (profile.go).
//     Scaling (scaling.go) maps the profile's counts to the model's.
//   - miss.go turns the counts of one layer into the seconds of its operators and transfers.
//   - calibrate.go makes the choices that a schedule leaves open, such as its micro-batches.
//   - parallel.go and stages.go divide a model among GPUs.
//   - prefill.go prices the prompts of equal requests, and iteration.go the mixed batches of servers.
//   - memory.go computes the memory that a batch needs, and room.go that of vLLM.
//   - row_pricer.go prices rows of boards in the place of profiles. Package board takes these times as
//     linear in the misses of a request.
//   - result.go, report.go, interval.go and assumptions.go write the results, with their errors and sources.
//
// # The price of a miss
//
//   - gatherer.add (profile.go) and meanStep (row_pricer.go) count prefetched blocks as fetched ones.
//   - moveMisses (miss.go) makes transfers of a layer's fetched blocks. pieces.cost prices one on a path of
//     package transfer.
//   - Timeline.fetch (schedule/layer.go) places them. Layer.fetching is the same time in closed form, so change
//     both.
//   - transfer.Tiers is a separate model, for `hardware price` and figures of KVDrive.
package pipeline
