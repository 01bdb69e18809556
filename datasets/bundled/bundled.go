// Package bundled holds the real traces that come with kvreplay. One of them, the
// smallest, is part of the binary; README.md says what they are.
package bundled

import _ "embed"

// Folder is where the traces lie, from the root of a checkout.
const Folder = "datasets/bundled"

// EmbeddedFile is the name of the trace that is part of the binary.
const EmbeddedFile = "smollm2_niah_1k_sglang.parquet"

// Embedded is its content. Callers do not change it.
//
//go:embed smollm2_niah_1k_sglang.parquet
var Embedded []byte
