package demand

import (
	"fmt"

	"github.com/kvreplay/kvreplay/trace"
)

// MostBlocks is the longest context of a stream that is replayed, in blocks of its trace:
// some bytes of every block are held, for each worker.
const MostBlocks = 1 << 27

// CheckContext refuses a stream that is longer. Formats allow contexts of 2³¹ − 1 tokens,
// which a file of a few rows can state and no memory holds.
func CheckContext(m *trace.Meta, s *trace.StreamInfo) error {
	if blocks := m.Blocks(s.MaxSeqLen()); blocks > MostBlocks {
		return fmt.Errorf("%v: a context of %d tokens has %d blocks, expected at most %d. `kvreplay derive --block-tokens` makes larger blocks", s.Key, s.MaxSeqLen(), blocks, MostBlocks)
	}
	return nil
}
