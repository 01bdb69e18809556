// Package schedule places the operations of a decode step on the resources of a GPU and its host. It
// prices nothing: a Step states the seconds of each operation of each layer, and package pipeline
// computes them. All times are seconds. Start with these files:
//
//   - schedule.go has the table of schedules. Each family has a file with its steps, its paper and
//     section.
//   - layer.go has a step and its layers, and the operations that schedules share.
//   - timeline.go places operations on the resources of resource.go: the GPU's SMs, both
//     directions of the link, the CPU, the SSD, and the links to other GPUs. An operation begins
//     when its dependencies have ended and its resource is free, in program order.
//
// Tests compare the timeline with closed forms (closed_test.go).
package schedule
