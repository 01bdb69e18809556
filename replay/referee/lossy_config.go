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
	// options, for example "h2o:recent=0.5,scores=ranks".
	Policy string
	// TopK is K, Candidates M.
	TopK, Candidates int
	// Capacities holds C of each stream in blocks. pyramidkv, adakv and duoattention divide their
	// sum.
	Capacities []int
	// Windows is the number of windows that the method observes.
	Windows int
	// Sink and Local are the pins in tokens. BlockTokens is the number of tokens per block.
	Sink, Local, BlockTokens int
	// Attention returns the attention of each block in a row's list, nil if it is not known. Masses
	// states that these are shares of the step's attention. Covered states that only covered_mass
	// has the mass of the whole list.
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

// option returns a number among the policy's options.
func (c *LossyConfig) option(name string) float64 { return c.numbers[name] }
func (c *LossyConfig) word(name string) string    { return c.words[name] }

// part returns the share of a number that an option states, rounded down.
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

// open returns the complete, unpinned blocks of a context, ascending.
func (c *LossyConfig) open(seqLen int) (blocks []int32) {
	for b := int32(0); (int(b)+1)*c.BlockTokens <= seqLen; b++ {
		if !c.pinned(b, seqLen) {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// before returns the context before the first counted step, in tokens.
func before(s *trace.Stream) int { return s.SeqLen(windows(s)) - 1 }

// promptBlocks returns the number of blocks of the prompt. The last one may be incomplete.
func (c *LossyConfig) promptBlocks(s *trace.Stream) int {
	return (int(s.PromptLen) + c.BlockTokens - 1) / c.BlockTokens
}

// firstOpen returns the first block without a token of the sinks.
func (c *LossyConfig) firstOpen() int { return (c.Sink + c.BlockTokens - 1) / c.BlockTokens }
