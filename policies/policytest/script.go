package policytest

import (
	"slices"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
)

// script records the calls of one replay, so that they can be repeated without an engine.
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

// record replays a setting and returns the calls that were made.
func (s *suite) record(c *setting) (*script, error) {
	p := s.fresh()
	p.script = new(script)
	_, _, err := replayEngine(c, p)
	return p.script, err
}

// play makes the calls. dst is the caller's buffer.
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

// begin resets p for the script's stream.
func (r *script) begin(p policies.Policy) {
	scope := r.scope
	if err := p.Reset(&scope); err != nil {
		panic(err) // it succeeded the first time
	}
}

func (r *script) steps() int {
	return slice.Count(r.calls, func(c call) bool { return c.kind == callUpdate })
}
