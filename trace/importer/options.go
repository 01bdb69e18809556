package importer

import (
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/trace"
)

// DefaultMemory is the memory budget where Options says none, in bytes.
const DefaultMemory = 4 << 30

// minMemory is the smallest budget that leaves room for one long record, in bytes.
const minMemory = 64 << 10

// DefaultWindows is how many of the last prompt queries an SGLang import keeps
// where Options says nothing: as many as ESS warms up with.
const DefaultWindows = 32

// Options says what the sources do not. The zero value says nothing.
type Options struct {
	// Stated holds what the caller knows of the trace; zero fields are unsaid. Order,
	// TopK and the rest must agree with whatever a source states itself. Version and
	// Candidates are not looked at.
	Stated trace.Meta
	// RequestID names the request where a source does not, as .npz never does.
	RequestID string
	// PromptLen is the length of the prompt in tokens where a source does not imply it; 0 unsaid.
	PromptLen int
	// Layers is the number of indexer layers of an SGLang source; 0 unsaid.
	Layers int
	// IndexTopK is the list length of an SGLang source; 0 unsaid.
	IndexTopK int
	// Windows is the number of prompt queries to keep at most, steps -Windows … -1; nil:
	// DefaultWindows of an SGLang source, all of any other.
	Windows *int
	// Memory is the memory budget in bytes, 0 for DefaultMemory. Records beyond a quarter of
	// it go to a temporary file; what must be held whole (.npz, one SGLang response, one
	// Arrow record batch) may take a quarter.
	Memory int64
	// Progress, if not nil, is told now and then how many records were read, and when all
	// were, how many of them are written; in the end (read, read).
	Progress func(read, written int64)
	// Tmp is the directory of temporary files, empty for the system's.
	Tmp string
}

// Validate reports the first field out of range.
func (o *Options) Validate() error {
	switch {
	case o.PromptLen < 0 || o.PromptLen > math.MaxInt32:
		return fmt.Errorf("import: prompt length %d, expected 0 (unsaid) to %d", o.PromptLen, math.MaxInt32)
	case o.Layers < 0:
		return fmt.Errorf("import: %d layers, expected at least 1", o.Layers)
	case o.IndexTopK < 0:
		return fmt.Errorf("import: index_topk %d, expected at least 1", o.IndexTopK)
	case o.Windows != nil && *o.Windows < 0:
		return fmt.Errorf("import: %d windows, expected 0 or more", *o.Windows)
	case o.Memory != 0 && o.Memory < minMemory:
		return fmt.Errorf("import: memory of %d bytes, expected at least %d", o.Memory, minMemory)
	case o.Stated.TopK < 0 || o.Stated.BlockTokens < 0:
		return fmt.Errorf("import: topk %d, block_tokens %d, expected none below 1", o.Stated.TopK, o.Stated.BlockTokens)
	}
	probe := o.Stated
	probe.Version, probe.TopK, probe.BlockTokens = trace.Version, max(probe.TopK, 1), max(probe.BlockTokens, 1)
	if probe.Order == "" {
		probe.Order = trace.OrderRank
	}
	if err := probe.Validate(); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

func (o *Options) memory() int64 {
	if o.Memory == 0 {
		return DefaultMemory
	}
	return o.Memory
}

// wholeLimit is the size up to which a source is held in memory whole, in bytes.
func (o *Options) wholeLimit() int64 { return o.memory() / 4 }
