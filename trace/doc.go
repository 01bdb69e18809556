// Package trace reads, writes and checks Top-K traces: the recorded selections of a model that
// decodes with sparse attention. FORMAT.md in this folder specifies the format in a way that other
// languages can implement. This package is its reference implementation.
//
// A trace is a Parquet file of rows, one per (request, layer, head, step), sorted by that key. All
// rows of one (request, layer, head) form a stream and are in one row group. Each row lists the
// selected blocks, usually best first. The demand of any K is then a prefix, and the rest are the
// candidates.
//
//	f, err := trace.Open("prompt.parquet")     // directory and metadata, checked
//	r := f.NewReader(trace.ReadScores)         // one per goroutine
//	var s trace.Stream                         // reused: memory of one stream
//	for i := range f.Streams() {
//		err = r.Read(i, &s)                // every rule of FORMAT.md is checked
//	}
//
// A broken rule is an *Error with file, row group, row and stream. A truncated or altered file is
// never half read. Its pages are checked by their CRC, or the whole file by its digest. Page
// headers and footer have no checksum. Package trace/parquet compares them with each other before it
// uses a page. It rejects any length in them that the file cannot hold.
package trace
