// Package corpus embeds the trace of the corpus on which advice rests without a trace of the user.
// ../CARD.md describes the corpus.
package corpus

import _ "embed"

// Embedded is the content of EmbeddedFile. Callers must not change it.
//
//go:embed wide_documents.parquet
var Embedded []byte

// EmbeddedFile is the smallest trace of the corpus whose selections a layer's heads share and that
// has enough requests for intervals.
const EmbeddedFile = "wide_documents.parquet"
