// Package pipeline prices a replay's misses in time. A profile (package replay) says what
// each layer of each step fetched; package hardware says what the machine and the model
// are; package transfer prices bytes on links and drives. Here:
//
//   - Compute gives the seconds of a layer's operators: a roofline of the model's shape,
//     or a table of measured times.
//   - A Schedule places a step's operators and transfers on a Timeline of the GPU's SMs,
//     both copy directions, the CPU and the SSD. An operation begins when what it depends
//     on has ended and its resource is free, in program order.
//   - A Batch draws requests from a profile and adds their misses layer by layer; Price
//     runs a schedule over its steps and reports times, exposure, bytes and memory.
//
// Closed forms of the papers stand beside the schedules that they describe; tests hold
// the timeline to them. All times are seconds, sizes bytes, rates bytes a second.
package pipeline
