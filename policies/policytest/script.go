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
)

type call struct {
	kind callKind
	n    int
	step policies.Step
}

func (r *script) update(s *policies.Step) {
	kept := *s
	for _, l := range lists(&kept) {
		*l.list = slices.Clone(*l.list)
	}
	kept.Scores = slices.Clone(s.Scores)
	r.calls = append(r.calls, call{kind: callUpdate, step: kept})
}

func (r *script) bypass(n int) { r.calls = append(r.calls, call{kind: callBypass, n: n}) }
func (r *script) evict(n int)  { r.calls = append(r.calls, call{kind: callEvict, n: n}) }

// play makes the calls; dst is the caller's buffer.
func (r *script) play(p policies.Policy, dst []int32) []int32 {
	scope := r.scope
	if err := p.Reset(&scope); err != nil {
		panic(err) // it did not refuse the first time
	}
	bypasser, _ := p.(policies.Bypasser)
	for i := range r.calls {
		switch c := &r.calls[i]; c.kind {
		case callUpdate:
			p.Update(&c.step)
		case callBypass:
			dst = bypasser.Bypass(c.n, dst[:0])
		case callEvict:
			dst = p.Evict(c.n, dst[:0])
		}
	}
	return dst
}

// allocationsAStream is what Reset may take: a random source, say.
const allocationsAStream = 4

// allocates counts the allocations of a replay that the instance has made before.
func (s *suite) allocates() error {
	o := replaytest.Options{Prompt: 300, Steps: 300, Windows: 16, M: 32, Locality: 0.95, Scores: true, Local: 4}
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
		policy, dst := s.make(), make([]int32, 0, c.stream.MaxSeqLen())
		dst = p.script.play(policy, dst)
		if n := testing.AllocsPerRun(3, func() { dst = p.script.play(policy, dst) }); n > allocationsAStream {
			return fmt.Errorf("allocates %.0f times while it replays %d steps that it has replayed before, %d are allowed a stream: take memory in Reset (policies.Fill keeps it from stream to stream) and reuse buffers as s[:0]\n%v", n, c.stream.Rows, allocationsAStream, c)
		}
	}
	return nil
}
