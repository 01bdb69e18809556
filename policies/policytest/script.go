package policytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/replaytest"
)

// script is the calls of one replay, to be made again without an engine.
type script struct {
	scope policies.Scope
	calls []call
}

type callKind uint8

const (
	callUpdate callKind = iota
	callBypass
	callEvict
	callPrompt
)

type call struct {
	kind   callKind
	n      int
	step   policies.Step
	prompt policies.Prompt // of callPrompt
	answer []int32         // of callBypass and callEvict
}

func (r *script) update(s *policies.Step) {
	kept := *s
	for _, l := range lists(&kept) {
		*l.list = slices.Clone(*l.list)
	}
	kept.Scores = slices.Clone(s.Scores)
	r.calls = append(r.calls, call{kind: callUpdate, step: kept})
}

func (r *script) prompt(p *policies.Prompt) {
	r.calls = append(r.calls, call{kind: callPrompt, prompt: lendPrompt(p).given})
}

func (r *script) asked(kind callKind, n int, answer []int32) {
	r.calls = append(r.calls, call{kind: kind, n: n, answer: slices.Clone(answer)})
}

// play makes the calls; dst is the caller's buffer.
func (r *script) play(p policies.Policy, dst []int32) []int32 {
	r.begin(p)
	for i := range r.calls {
		dst = r.calls[i].make(p, dst[:0])
	}
	return dst
}

// make makes a call and appends its answer.
func (c *call) make(p policies.Policy, dst []int32) []int32 {
	switch c.kind {
	case callBypass:
		return p.(policies.Bypasser).Bypass(c.n, dst)
	case callEvict:
		return p.Evict(c.n, dst)
	case callPrompt:
		p.(policies.Lossy).Prompt(&c.prompt)
		return dst
	}
	p.Update(&c.step)
	return dst
}

// allocationsAStream is what Reset may take: a random source, say.
const allocationsAStream = 4

// allocates counts the allocations of a replay that the instance has made before: Reset
// takes a few at most, the steps none.
func (s *suite) allocates() error {
	o := s.usable(replaytest.Options{Prompt: 1200, Steps: 2400, Windows: 16, M: 32, Locality: 0.95, Scores: true, Local: 4, BlockTokens: 8})
	if s.short {
		o.Steps = 1200
	}
	r := rand.New(rand.NewPCG(1, 32))
	stream := replaytest.Stream(r, o)
	for _, factor := range []int{1, 3} {
		c := s.settle(r, stream, o.Meta(24))
		if c.capacity != policies.Unbounded {
			c.capacity = c.topK * factor
		}
		p := s.fresh()
		p.script = new(script)
		if _, _, err := replayEngine(c, p); err != nil {
			return fmt.Errorf("%w\n%v", err, c)
		}
		if err := p.script.allocates(s.make(), make([]int32, 0, c.stream.MaxSeqLen())); err != nil {
			return fmt.Errorf("%w: take memory in Reset (policies.Fill keeps it from stream to stream) and reuse buffers as s[:0]\n%v", err, c)
		}
	}
	return nil
}

// allocates plays the script until nothing new is allocated, twice as often each time: a
// list that only grows takes memory ever more seldom, and never stops.
func (r *script) allocates(p policies.Policy, dst []int32) error {
	dst = r.play(p, dst)
	begin := testing.AllocsPerRun(3, func() { r.begin(p) })
	if begin > allocationsAStream {
		return fmt.Errorf("Reset allocates %.0f times on a stream that it has begun before, %d are allowed", begin, allocationsAStream)
	}
	n := 0.0
	for plays := 1; plays <= 4; plays *= 2 {
		n = testing.AllocsPerRun(1, func() {
			for range plays {
				dst = r.play(p, dst)
			}
		}) - begin*float64(plays)
		if n <= 0 {
			return nil
		}
	}
	return fmt.Errorf("allocates %.0f times in the %d steps of four replays that it has made before, none are allowed", n, 4*r.steps())
}

// begin resets p for the script's stream.
func (r *script) begin(p policies.Policy) {
	scope := r.scope
	if err := p.Reset(&scope); err != nil {
		panic(err) // it did not refuse the first time
	}
}

// steps is the number of the script's updates.
func (r *script) steps() (n int) {
	for i := range r.calls {
		if r.calls[i].kind == callUpdate {
			n++
		}
	}
	return n
}
