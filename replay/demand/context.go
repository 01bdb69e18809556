package demand

import (
	"fmt"

	"github.com/kvreplay/kvreplay/trace"
)

// MostBlocks is the longest context of a stream that kvreplay replays, in blocks of its trace.
// Each worker holds some bytes for every block.
const MostBlocks = 1 << 27

// CheckContext returns an error if the context of a stream exceeds MostBlocks. The trace format
// allows contexts of 2³¹ − 1 tokens. A small file can state such a context, but a worker has no
// memory for it.
func CheckContext(m *trace.Meta, s *trace.StreamInfo) error {
	if blocks := m.Blocks(s.MaxSeqLen()); blocks > MostBlocks {
		return fmt.Errorf("%v: a context of %d tokens has %d blocks, expected at most %d. `kvreplay derive --block-tokens` makes larger blocks", s.Key, s.MaxSeqLen(), blocks, MostBlocks)
	}
	return nil
}
