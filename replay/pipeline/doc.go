// Package pipeline prices a replay's misses in time. A profile (package replay) states what
// each layer of each step fetched. Package hardware describes the machine and the model, and
// package transfer prices bytes on links and drives. All times are seconds, sizes bytes,
// rates bytes a second. Price is the entry point. Start with these three files:
//
//   - price.go runs a schedule over the steps of a batch (batch.go) of a profile
//     (profile.go), whose counts stand for the model's (scaling.go).
//   - miss.go turns the counts of one layer into the seconds of its transfers and bytes.
//     Package transfer has the formulas; operators.go has those of computation: a roofline of
//     the model's shape, or a table of measured times.
//   - timeline.go places operations on the resources of resource.go: the GPU's SMs, both
//     directions of the link, the CPU and the SSD. An operation begins when the operations
//     that it depends on have ended and its resource is free, in program order.
//
// A Schedule (schedule.go) says which operations a step has. Each family has a file
// (schedule_*.go) with its steps, its paper and section, and a closed form that a test holds
// the timeline against. layer.go has the steps that schedules share.
//
// memory.go says what must fit where, and plan.go searches batches, schedules and cells.
// result.go, report.go, plan_report.go and assumptions.go state the outcome.
package pipeline
