// Package trace reads, writes and checks Top-K traces: the recorded selections of
// a model that decodes with sparse attention. FORMAT.md, beside this file, is the
// specification that another language can write from; this package is its
// reference implementation.
//
// A trace is a Parquet file of rows, one per (request, layer, head, step), sorted
// by that key. All rows of one (request, layer, head) are a stream and lie in one
// row group. Each row lists the selected blocks, as a rule best first, so that the demand
// of any K is a prefix and the rest are the candidates.
//
//	f, err := trace.Open("prompt.parquet")     // directory and metadata, checked
//	r := f.NewReader(trace.ReadScores)         // one per goroutine
//	var s trace.Stream                         // reused: memory of one stream
//	for i := range f.Streams() {
//		err = r.Read(i, &s)                // every rule of FORMAT.md is checked
//	}
//
// Whatever breaks a rule ends in an *Error with file, row group, row and stream; a
// truncated or altered file is never half read. Pages are held against their CRC or
// the file against its digest. Page headers, page index and footer, which have no
// checksum, are held against each other when a file is opened, and nothing is
// allocated by a length that the file cannot hold.
package trace
