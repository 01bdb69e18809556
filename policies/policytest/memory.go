package policytest

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"

	"github.com/kvreplay/kvreplay/policies"
)

// bytesClaimed reads what Traits.Memory begins with.
var bytesClaimed = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?) B\b`)

// Contexts whose memory is compared, in blocks, and what a block may take beyond the claim:
// a few bits, and what slices are rounded up by.
const (
	smallContext, largeContext = 1 << 16, 1 << 18
	memorySlack                = 0.75
)

// remembers measures what an instance holds after streams that differ in the length of
// their context alone, and compares it with the claim. One that is no number of bytes is
// not looked at.
func (s *suite) remembers() error {
	match := bytesClaimed.FindStringSubmatch(s.entry.Traits.Memory)
	if match == nil {
		return nil
	}
	claim, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return err
	}
	each, err := s.heldEach()
	if err != nil {
		return err
	}
	if each > claim+memorySlack {
		return fmt.Errorf("Traits.Memory is %q, but %.1f B are held for each block of the context: state what Reset takes", s.entry.Traits.Memory, each)
	}
	return nil
}

// heldEach is the memory in bytes that an instance holds for a block of the context: what
// it holds more where the context is larger.
func (s *suite) heldEach() (bytes float64, err error) {
	held := s.heldOver
	if s.entry.Traits.Lossy {
		held = s.lossyHeldOver
	}
	small, err1 := held(smallContext)
	large, err2 := held(largeContext)
	return (large - small) / (largeContext - smallContext), errors.Join(err1, err2)
}

// heldOver is the memory in bytes of an instance that has replayed a stream over a context
// longer by so many blocks.
func (s *suite) heldOver(blocks int) (bytes float64, err error) {
	return s.held(s.draw(2).shift(blocks))
}

// held is the memory in bytes of an instance that has replayed a stream.
func (s *suite) held(c *setting) (bytes float64, err error) {
	p := s.fresh()
	p.script = new(script)
	if _, _, err := replayEngine(c, p); err != nil {
		return 0, err
	}
	return p.script.held(s)
}

// held is the memory in bytes of an instance that has answered the script.
func (r *script) held(s *suite) (bytes float64, err error) {
	defer catch(&err)
	var policy policies.Policy
	live := liveBytes(func() { policy = s.make(); r.play(policy, nil) })
	runtime.KeepAlive(policy)
	return float64(live), nil
}
