package referee

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// LossyConfig is a cell of a lossy method on the streams of a request.
type LossyConfig struct {
	// Policy is streamingllm, h2o, snapkv, pyramidkv, adakv or duoattention with all of its
	// options, as in "h2o:recent=0.5,scores=ranks".
	Policy string
	// TopK is K, Candidates M.
	TopK, Candidates int
	// Capacities are C of each stream in blocks. pyramidkv, adakv and duoattention divide
	// their sum.
	Capacities []int
	// Windows are the prompt windows that the method sees.
	Windows int
	// Sink and Local are the pins in tokens, BlockTokens the tokens of a block.
	Sink, Local, BlockTokens int
	// Attention returns what each block of a row's list was given, nil where that is not
	// known; Masses says that these are shares of the step's attention, Covered that only
	// covered_mass knows what the whole list holds.
	Attention       func(s *trace.Stream, row int) []float32
	Masses, Covered bool

	method  string
	numbers map[string]float64
	words   map[string]string
}

// parse reads the policy's name and options.
func (c *LossyConfig) parse() error {
	c.numbers, c.words = map[string]float64{}, map[string]string{}
	var options string
	c.method, options, _ = strings.Cut(c.Policy, ":")
	for one := range strings.SplitSeq(options, ",") {
		key, value, ok := strings.Cut(one, "=")
		if !ok {
			return fmt.Errorf("referee: option %q of %s is not name=value", one, c.Policy)
		}
		c.words[key] = value
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			c.numbers[key] = v
		}
	}
	return nil
}

// option is a number among the policy's options, word any text.
func (c *LossyConfig) option(name string) float64 { return c.numbers[name] }
func (c *LossyConfig) word(name string) string    { return c.words[name] }

// part is the share of a number that an option states, as it is written, rounded down.
func (c *LossyConfig) part(name string, of int) int {
	share, ok := new(big.Rat).SetString(c.words[name])
	if !ok {
		return 0
	}
	share.Mul(share, big.NewRat(int64(of), 1))
	return int(new(big.Int).Quo(share.Num(), share.Denom()).Int64())
}

// pinned reports whether a sink or the local window has a token of block b.
func (c *LossyConfig) pinned(b int32, seqLen int) bool {
	first, last := int(b)*c.BlockTokens, (int(b)+1)*c.BlockTokens-1
	return first < c.Sink || last >= seqLen-c.Local
}

// open are the blocks of a context that are whole and not pinned, ascending.
func (c *LossyConfig) open(seqLen int) (blocks []int32) {
	for b := int32(0); (int(b)+1)*c.BlockTokens <= seqLen; b++ {
		if !c.pinned(b, seqLen) {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// before is the context in front of the first counted step.
func before(s *trace.Stream) int { return s.SeqLen(windows(s)) - 1 }

// promptBlocks is the number of blocks of the prompt, the last one perhaps partly filled.
func (c *LossyConfig) promptBlocks(s *trace.Stream) int {
	return (int(s.PromptLen) + c.BlockTokens - 1) / c.BlockTokens
}

// firstOpen is the first block without a token of the sinks.
func (c *LossyConfig) firstOpen() int { return (c.Sink + c.BlockTokens - 1) / c.BlockTokens }
