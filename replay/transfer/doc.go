// Package transfer turns the misses of a step into requests and bytes, and those into time. It
// models transfers between host and GPU by copy engine or kernel, and reads from SSD, DRAM and CXL.
//
// Package pipeline prices a replay: its miss.go makes the requests of a layer and uses the paths
// of this package. The command `kvreplay hardware price` uses Layout.Request and Tiers.Fetch.
//
// Bytes and requests come first. A Layout describes blocks and their place in memory. It makes a
// Request from the counts in a replay's profile (missed blocks, runs of adjacent ones). A Request
// holds the descriptors and bytes of one launch. A Path prices a Request:
//
//	lib, _ := hardware.Load("")
//	machine, _ := lib.Machine("h100")
//	link := transfer.NewLink(machine.Link)
//	layout := transfer.Layout{EntryBytes: 656}
//	fetch := link.Fastest(transfer.HostToDevice)
//	cost := fetch.Cost(layout.Request(misses, runs))
//
// A Cost holds bytes, descriptors, launches, wire bytes in each direction, the SMs that a kernel
// takes, and seconds by cause. All times are seconds, all sizes bytes, all rates bytes per second.
// The constants come from package hardware, with their sources. README.md has the formulas.
// POINTS.md compares them with measurements.
package transfer
