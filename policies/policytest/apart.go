package policytest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// apart makes the calls of two replays in turn, an instance each: both answer as they did
// alone.
func (s *suite) apart() error {
	apart := s.besideLast()
	return s.seeds(apartStreams, func(c *setting) error {
		p := s.fresh()
		p.script = new(script)
		if _, _, err := replayEngine(c, p); err != nil {
			return err
		}
		return apart(p.script)
	})
}

// besideLast returns a check that a script is answered as alone while the one before it, or
// of the first itself, is played beside it.
func (s *suite) besideLast() func(*script) error {
	var last *script
	return func(r *script) error {
		other := cmp.Or(last, r)
		last = r
		if err := r.beside(other, s); err != nil {
			return fmt.Errorf("two instances are not apart, as workers need them: made in turn with those of another stream, its calls are answered in another way than alone (a variable of the package, or something that New's factory gives to all?)\n%w", err)
		}
		return nil
	}
}

// beside makes the calls of r and of another script in turn, and checks the answers of r.
func (r *script) beside(other *script, s *suite) (err error) {
	defer catch(&err)
	one, two := s.make(), s.make()
	r.begin(one)
	other.begin(two)
	for i := range r.calls {
		c := &r.calls[i]
		got := c.make(one, nil)
		if i < len(other.calls) {
			other.calls[i].make(two, nil)
		}
		if (c.kind == callEvict || c.kind == callBypass) && !slices.Equal(got, c.answer) {
			return fmt.Errorf("step T = %d: asked for %d blocks it names %v, alone %v", r.stepOf(i), c.n, got, c.answer)
		}
	}
	return nil
}

// stepOf is the step that a call belongs to.
func (r *script) stepOf(call int) int32 {
	for ; call >= 0; call-- {
		if r.calls[call].kind == callUpdate {
			return r.calls[call].step.T
		}
	}
	return math.MinInt32
}
