// Package bundled embeds the smallest of the real traces that come with kvreplay. README.md
// describes the traces.
package bundled

import _ "embed"

// Folder is the folder of the traces, relative to the root of a checkout.
const Folder = "datasets/bundled"

// EmbeddedFile is the name of the trace that is part of the binary.
const EmbeddedFile = "smollm2_niah_1k_sglang.parquet"

// Embedded is the content of EmbeddedFile. Callers must not change it.
//
//go:embed smollm2_niah_1k_sglang.parquet
var Embedded []byte
