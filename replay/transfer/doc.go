// Package transfer turns the misses of a step into requests and bytes, and those into
// time: between host and GPU by copy engine or kernel, from SSD, DRAM and CXL.
//
// Bytes and requests come first. A Layout says what blocks are and how they lie; it
// makes a Request, the descriptors and bytes of one launch, from the counts that a
// replay's profile has (blocks missed, runs of adjacent ones). A Path prices a Request:
//
//	lib, _ := hardware.Load("")
//	machine, _ := lib.Machine("h100")
//	link := transfer.NewLink(machine.Link)
//	layout := transfer.Layout{EntryBytes: 656}
//	fetch := link.Fastest(transfer.HostToDevice)
//	cost := fetch.Cost(layout.Request(misses, runs))
//
// Costs say bytes, descriptors, launches, wire bytes each way, the SMs that a kernel
// takes, and seconds by cause. All times are seconds, all sizes bytes, all rates bytes a
// second. The constants come from package hardware, with their sources. README.md has
// the formulas; POINTS.md holds them against measurements.
package transfer
