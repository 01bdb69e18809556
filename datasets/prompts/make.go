package prompts

import (
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// All requests every task of a benchmark.
const All = "all"

// ChooseTasks returns the requested tasks in the order of known, or all of them for All and without any.
// kind names a task in errors.
func ChooseTasks(kind string, requested, known []string) ([]string, error) {
	var chosen []string
	for _, text := range requested {
		name, err := names.Find(kind, text, names.Of(append([]string{All}, known...)...))
		switch {
		case err != nil:
			return nil, err
		case name == All && len(requested) > 1:
			return nil, fmt.Errorf("%s all includes the others: remove them", kind)
		case slices.Contains(chosen, name):
			return nil, fmt.Errorf("%s %s is given twice", kind, name)
		case name != All:
			chosen = append(chosen, name)
		}
	}
	if chosen == nil {
		return known, nil
	}
	return slice.Filter(known, func(name string) bool { return slices.Contains(chosen, name) }), nil
}

// Maker makes the prompts of a benchmark. Its tasks draw samples or read rows. The maker fits
// samples to a length, completes the rows and lists them in the manifest.
type Maker struct {
	Manifest
	Tokenizer tokens.Tokenizer
	Sink      func(*Row) error // takes the rows in order
}

// NewMaker returns a maker that describes its prompts in a manifest like m.
func NewMaker(m Manifest, t tokens.Tokenizer, sink func(*Row) error) *Maker {
	m.Tokenizer = t.Name()
	return &Maker{Manifest: m, Tokenizer: t, Sink: sink}
}

// Count is the number of tokens of text.
func (m *Maker) Count(text string) int { return tokens.Count(m.Tokenizer, text) }

// Begin lists a task at a length. Write counts its rows.
func (m *Maker) Begin(task string, length int) {
	m.Tasks = append(m.Tasks, Task{Name: task, MaxLength: length})
}

// Write completes a row by benchmark, tokenizer and seed, and passes it to the sink. Its task
// and length have begun.
func (m *Maker) Write(r *Row) error {
	r.Benchmark, r.Tokenizer, r.Seed = m.Benchmark, m.Tokenizer.Name(), m.Seed
	for i := range m.Tasks {
		if t := &m.Tasks[i]; t.Name == r.Task && t.MaxLength == r.MaxLength {
			t.Rows++
		}
	}
	return m.Sink(r)
}

// Draft is a prompt of a certain size.
type Draft struct {
	Input   string // filled template without the answer's prefix
	Prefix  string // of the answer
	Outputs []string
}

// Sample is a prompt with its needles, words or questions drawn. Its size in units (lines,
// words or documents) is still open. One goroutine uses it.
type Sample struct {
	Least, Most int                   // units that it can have
	Prompt      func(units int) Draft // the same prompt at each call. More units make it longer
	Origin      string                // the part of the sources that it was made from
}

// Unbounded is the most units of a sample without a limit.
const Unbounded = 1 << 30

// Fitted is a prompt of the largest size that fits.
type Fitted struct {
	Draft
	Units  int
	Tokens int // of input and prefix
}

// TightError reports that the smallest prompt of a sample is longer than the budget.
type TightError struct{ Units, Tokens, Budget int }

func (e *TightError) Error() string {
	return fmt.Sprintf("length too short: the prompt needs at least %d tokens and may have %d", e.Tokens, max(e.Budget, 0))
}

// probes is the number of interpolated sizes after which Fit halves instead.
const probes = 6

// Fit returns the prompt of n units if n units fit in budget tokens and n+1 do not, or if n is
// Most. If every unit makes the prompt longer, n is the largest size that fits. guess is a size to
// start from, 0 for none. If the least size does not fit, the error is a *TightError.
//
// RULER bisects over the sizes with a new draw each time. It uses the result for all samples, and
// subtracts steps of 5 … 500 units for samples that turn out longer. Here every sample has its own
// size. A prompt's length is close to linear in its units, so the interpolated size is off by a
// unit or two. A prompt is built and counted four or five times.
func (m *Maker) Fit(s Sample, budget, guess int) (*Fitted, error) {
	at := func(n int) *Fitted {
		d := s.Prompt(n)
		return &Fitted{Draft: d, Units: n, Tokens: m.Count(d.Input + d.Prefix)}
	}
	low := at(s.Least)
	if low.Tokens > budget {
		return nil, &TightError{s.Least, low.Tokens, budget}
	}
	high := &Fitted{Units: s.Most + 1} // does not fit. Its tokens are known after it is built
	slope := 0.0                       // tokens per unit
	if second := s.Least + 16; second < high.Units {
		p := at(second)
		slope = float64(p.Tokens-low.Tokens) / 16
		if p.Tokens <= budget {
			low = p
		} else {
			high = p
		}
	}
	for probe := 0; high.Units-low.Units > 1; probe++ {
		var n int
		switch {
		case probe == 0 && guess > low.Units && guess < high.Units:
			n = guess
		case probe < probes && slope > 0:
			n = low.Units + int(float64(budget-low.Tokens)/slope)
		case high.Tokens == 0:
			n = low.Units * 2
		default:
			n = low.Units + (high.Units-low.Units)/2
		}
		p := at(min(max(n, low.Units+1), high.Units-1))
		from := low
		if high.Tokens > 0 && p.Tokens <= budget {
			from = high
		}
		if p.Units != from.Units {
			slope = float64(p.Tokens-from.Tokens) / float64(p.Units-from.Units)
		}
		if p.Tokens <= budget {
			low = p
		} else {
			high = p
		}
	}
	return low, nil
}
