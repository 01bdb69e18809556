// Package operator prices the operators of a layer on one GPU: its products, its attention, the
// selection of the Top-K, lookups, the work on moved entries, and the communication with other GPUs.
// It computes their FLOP, bytes, kernels and launches from the shape of a model (package hardware), and
// turns them into seconds. It knows no profile and no schedule: package pipeline states the Load of each
// layer and step. All times are seconds, sizes bytes, and rates bytes per second. Start with these files:
//
//   - layer.go has the input of the operators of a layer, and their times.
//   - set.go chooses the prices of a machine, a model and an engine.
//   - roofline.go prices operators by arithmetic and bytes, and kernels.go by the kernels of package kernel.
//     matrices.go has the products of attention.
//   - selection.go has the methods that find the Top-K, lookup.go the structures that blocks are looked up
//     in, and entry.go the forms in which KV moves. Each is a table.
//   - engine.go has the overhead of programs that launch kernels. It is a table too.
//   - communication.go has the exchanges between GPUs, by package collective. host.go has attention on the CPU.
package operator
