package policytest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// Numbers of streams that the checks draw. -short halves them.
const (
	legalStreams     = 600
	agreeStreams     = 200
	referenceStreams = 1200
	boundStreams     = 600
	stackStreams     = 300
	sweepStreams     = 200
	shiftStreams     = 200
	sizedStreams     = 100
	peekStreams      = 100
	singleStreams    = 100
	resizeStreams    = 100
	onlineStreams    = 200
	apartStreams     = 100
	poolTraces       = 6
)

// legal replays with a new instance per stream. The engine checks every answer.
func (s *suite) legal() error {
	return s.seeds(legalStreams, func(c *setting) error {
		_, _, err := replayEngine(c, s.fresh())
		return err
	})
}

// deterministic compares two instances, and two seeds of the run.
func (s *suite) deterministic() error {
	err := s.seeds(agreeStreams, func(c *setting) error {
		if err := s.compare(c, c, s.fresh(), "one instance", "another"); err != nil {
			return fmt.Errorf("two instances with the same seed differ: look for global randomness, a clock or the order of a map\n%w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	drew := false
	err = s.seeds(agreeStreams, func(c *setting) error {
		other := *c
		other.runSeed += 1000
		difference := s.compare(c, &other, s.fresh(), "with one seed it", "with another it")
		drew = drew || difference != nil
		if difference != nil && !s.entry.Traits.Random {
			return fmt.Errorf("results depend on Scope.Seed: set Traits.Random\n%w", difference)
		}
		return nil
	})
	if err == nil && s.entry.Traits.Random && !drew && s.seed == 0 {
		return errors.New("the entry's Traits.Random is set, but the seed changes nothing: draw from Scope.Seed, or remove the trait")
	}
	return err
}

// compare compares the history of a new instance on a with that of p on b. first and second are their names.
func (s *suite) compare(a, b *setting, p *probe, first, second string) error {
	x, _, err1 := replayEngine(a, s.fresh())
	y, _, err2 := replayEngine(b, p)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return differ(first, second, x, y)
}

// borrows overwrites everything that the policy was lent, after every call.
func (s *suite) borrows() error { return s.seeds(agreeStreams, s.borrowsOn) }

func (s *suite) borrowsOn(c *setting) error {
	p := s.fresh()
	p.spoil = true
	err := s.compare(c, c, p, "normally it", "with lists overwritten it")
	if p.err != nil {
		return p.err
	}
	if err != nil {
		return fmt.Errorf("keeps a slice or pointer after the call: Scope, Prompt, Step and their lists are valid only during it, so copy them\n%w", err)
	}
	return nil
}

// forgets replays streams A, B, A with one instance. It replays A again after as many streams as a
// counter of 8 or 16 bits can count.
func (s *suite) forgets() error {
	if err := s.forgetsOther(); err != nil {
		return err
	}
	for _, again := range []struct {
		after int // streams
		seed  uint64
	}{{1 << 8, 4}, {1 << 8, 6}, {1 << 8, 14}, {1 << 8, 16}, {1 << 16, 14}} {
		if s.short && again.after > 1<<8 || s.seed != 0 {
			continue
		}
		if err := s.forgetsMany(s.draw(again.seed), again.after); err != nil {
			return err
		}
	}
	return nil
}

// forgetsMany begins the given number of streams between two replays of the same stream. A stamp
// that counts streams in too few bits then repeats.
func (s *suite) forgetsMany(c *setting, streams int) (err error) {
	defer catch(&err)
	p := s.fresh()
	want, _, err := replayEngine(c, p)
	if err != nil {
		return err
	}
	for range streams - 1 {
		scope := p.scope
		if err := p.policy.Reset(&scope); err != nil {
			return fmt.Errorf("Reset does not forget: it rejects a stream that it accepted before: %w\n%v", err, c)
		}
	}
	got, _, err := replayEngine(c, p)
	if err == nil {
		err = differ("a new instance", "the old one", want, got)
	}
	if err != nil {
		return fmt.Errorf("Reset does not forget: the same stream differs after %d others (does a stream counter overflow?)\n%w\n%v", streams, err, c)
	}
	return nil
}

func (s *suite) forgetsOther() error {
	var last *setting
	return s.seeds(agreeStreams, func(a *setting) error {
		b := cmp.Or(last, a)
		last = a
		want, _, err := replayEngine(a, s.fresh())
		if err != nil {
			return err
		}
		p := s.fresh()
		for i, c := range []*setting{a, b, a} {
			got, _, err := replayEngine(c, p)
			if err == nil && c == a {
				err = differ("a new instance", "one that has seen another stream", want, got)
			}
			if err != nil {
				return fmt.Errorf("Reset does not forget: stream %d of A, B, A differs with one instance\n%w", i+1, err)
			}
		}
		return nil
	})
}

func (s *suite) refereed() error { return s.seeds(referenceStreams, s.refereedOn) }

func (s *suite) refereedOn(c *setting) error {
	if s.reference == nil {
		return nil
	}
	p := s.fresh()
	got, _, err := replayEngine(c, p)
	if err != nil {
		return err
	}
	c.scopeSeed = p.scope.Seed
	want, err := replayReference(c, s.reference())
	if err != nil {
		return err
	}
	return differ("the policy", "the reference", got, want)
}

// online cuts streams short. A policy that does not see the future does the same up to the cut.
func (s *suite) online() error {
	if s.needs&policies.NeedNext != 0 {
		return nil
	}
	return s.seeds(onlineStreams, func(c *setting) error {
		counted := c.stream.Rows - c.stream.Windows
		if counted < 2 {
			return nil
		}
		whole, _, err := replayEngine(c, s.fresh())
		if err != nil {
			return err
		}
		rows := c.stream.Windows + 1 + rand.New(rand.NewPCG(c.seed, 34)).IntN(counted-1)
		short := *c
		short.stream = firstRows(c.stream, rows)
		cut, _, err := replayEngine(&short, s.fresh())
		if err == nil {
			err = differ("on the whole stream it", "cut short it", whole[:len(cut)], cut)
		}
		if err != nil {
			return fmt.Errorf("decisions depend on later steps: steps before row %d differ if the stream ends there. Use Scope.Steps, Demand and Blocks only to allocate, Prompt.Most only in Divide, or request NeedNext\n%w", rows, err)
		}
		return nil
	})
}

func firstRows(whole *trace.Stream, rows int) *trace.Stream {
	stream := new(trace.Stream)
	stream.Reset(whole.StreamInfo)
	for i := range rows {
		stream.Append(whole.Row(i))
	}
	return stream
}

// apart makes the calls of two replays in turn, with an instance each. Both must answer as alone.
func (s *suite) apart() error {
	var last *script
	return s.seeds(apartStreams, func(c *setting) error {
		calls, err := s.record(c)
		if err != nil {
			return err
		}
		other := cmp.Or(last, calls)
		last = calls
		if err := calls.interleave(other, s); err != nil {
			return fmt.Errorf("two instances share state: calls on one change answers of the other (a package variable, or a value that New's factory reuses?)\n%w", err)
		}
		return nil
	})
}

// interleave makes the calls of r and of another script in turn, and checks the answers of r.
func (r *script) interleave(other *script, s *suite) (err error) {
	defer catch(&err)
	one, two := s.make(), s.make()
	if shares, ok := two.(policies.Sharer); ok && shares.Streams() > 1 {
		shares.Share(one, nil)
	}
	r.begin(one)
	other.begin(two)
	for i := range r.calls {
		c := &r.calls[i]
		got := c.make(one, nil)
		if i < len(other.calls) {
			other.calls[i].make(two, nil)
		}
		if (c.kind == callEvict || c.kind == callBypass) && !slices.Equal(got, c.answer) {
			return fmt.Errorf("step T = %d: for %d blocks it names %v, but alone %v", r.stepOf(i), c.n, got, c.answer)
		}
	}
	return nil
}

func (r *script) stepOf(call int) int32 {
	for ; call >= 0; call-- {
		if r.calls[call].kind == callUpdate {
			return r.calls[call].step.T
		}
	}
	return math.MinInt32
}
