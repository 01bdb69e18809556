package policytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// allocationsAStream is the number of allocations that Reset may make, such as for a random source.
const allocationsAStream = 4

// allocates counts the allocations of a replay that the instance has made before. Reset may make a
// few, the steps none.
func (s *suite) allocates() error {
	o := s.usable(replaytest.Options{Prompt: 1200, Steps: 2400, Windows: 16, M: 32, Locality: 0.95, Scores: true, Local: 4, BlockTokens: 8})
	if s.short {
		o.Steps = 1200
	}
	where := "Reset"
	if s.rule == lose { // it grows by births only
		where, o.BlockTokens = "Reset or Prompt", 4
	}
	r := rand.New(rand.NewPCG(1, 32))
	stream, meta := replaytest.Stream(r, o), o.Meta(24)
	s.addMasses(r, stream, o)
	for _, factor := range []int{1, 3} {
		c := s.configure(r, stream, meta)
		if c.capacity != policies.Unbounded {
			c.capacity = c.topK * factor
		}
		calls, err := s.record(c)
		if err != nil {
			return fmt.Errorf("%w\n%v", err, c)
		}
		if err := calls.allocates(s.make(), make([]int32, 0, c.stream.MaxSeqLen())); err != nil {
			return fmt.Errorf("%w: allocate in %s with policies.Fill, which reuses memory, and reuse buffers as s[:0]\n%v", err, where, c)
		}
	}
	return nil
}

// allocates plays the script until nothing new is allocated, twice as often each time. A list that
// only grows allocates less and less often, but never stops.
func (r *script) allocates(p policies.Policy, dst []int32) error {
	dst = r.play(p, dst)
	begin := allocations(func() { r.begin(p) })
	if begin > allocationsAStream {
		return fmt.Errorf("Reset allocates %d times on a stream that it had before, expected at most %d", begin, allocationsAStream)
	}
	n := int64(0)
	for plays := 1; plays <= 4; plays *= 2 {
		n = allocations(func() {
			for range plays {
				dst = r.play(p, dst)
			}
		}) - begin*int64(plays)
		if n <= 0 {
			return nil
		}
	}
	return fmt.Errorf("allocates %d times in the %d steps of four repeated replays, expected 0", n, 4*r.steps())
}

// allocations returns the number of allocations of a call of f after another one. It counts tiny ones that
// share a block once.
func allocations(f func()) int64 {
	n, _ := profile(func() { f(); profiled(f) })
	return n
}

// bytesClaimed reads the number at the start of Traits.Memory.
var bytesClaimed = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?) B\b`)

// Contexts whose memory is compared, in blocks. memorySlack is the allowance per block beyond the
// claim, for a few bits and for the rounding of slices.
const (
	smallContext, largeContext = 1 << 16, 1 << 18
	memorySlack                = 0.75
)

// remembers measures the memory of an instance after streams that differ only in the length of
// their context. It compares the difference with the claim, unless the claim is not a number of
// bytes.
func (s *suite) remembers() error {
	match := bytesClaimed.FindStringSubmatch(s.entry.Traits.Memory)
	if match == nil {
		return nil
	}
	claim, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return err
	}
	each, err := s.memoryEach()
	if err != nil {
		return err
	}
	if each > claim+memorySlack {
		return fmt.Errorf("Traits.Memory is %q, but the policy holds %.1f B per block of the context: state the memory of Reset", s.entry.Traits.Memory, each)
	}
	return nil
}

// memoryEach returns the memory in bytes per block of the context: the additional memory of an
// instance for a larger context.
func (s *suite) memoryEach() (bytes float64, err error) {
	small, err1 := s.memoryOver(smallContext)
	large, err2 := s.memoryOver(largeContext)
	return (large - small) / (largeContext - smallContext), errors.Join(err1, err2)
}

// memoryOver returns the memory in bytes of an instance after a stream with a context of, or longer
// by, the given number of blocks.
func (s *suite) memoryOver(blocks int) (bytes float64, err error) {
	c := wide
	if s.rule == fetch {
		c = s.draw(2).shift
	}
	calls, err := s.record(c(blocks))
	if err != nil {
		return 0, err
	}
	return calls.memory(s)
}

// memory returns the memory in bytes of an instance that has answered the script.
func (r *script) memory(s *suite) (bytes float64, err error) {
	defer catch(&err)
	var policy policies.Policy
	live := liveBytes(func() { policy = s.make(); r.play(policy, nil) })
	runtime.KeepAlive(policy)
	return float64(live), nil
}

// profiling serializes changes of runtime.MemProfileRate, which is global.
var profiling sync.Mutex

// liveBytes calls f and returns the bytes that f allocated and that are still reachable. The caller keeps
// alive the memory to measure.
func liveBytes(f func()) int64 {
	_, live := profile(func() { profiled(f) })
	return live
}

// profile calls f and returns the allocations below profiled, and their bytes that are still reachable. It
// reads them from the heap profile by call stack. Allocations of other goroutines, and garbage from before
// the call, do not count.
func profile(f func()) (allocations, live int64) {
	profiling.Lock()
	defer profiling.Unlock()
	allocationsBefore, liveBefore := profiledSums()
	rate := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = rate }()
	runtime.MemProfileRate = 1 // every allocation
	f()
	runtime.MemProfileRate = rate
	allocations, live = profiledSums()
	return allocations - allocationsBefore, live - liveBefore
}

// profiled is the frame by which profiledSums finds the allocations to count.
//
//go:noinline
func profiled(f func()) { f() }

// profiledSums sums the allocations made below profiled, and the live bytes of them.
func profiledSums() (allocations, live int64) {
	for range 3 { // the profile may be two collections old (runtime.MemProfile)
		runtime.GC()
	}
	var records []runtime.MemProfileRecord
	for {
		n, ok := runtime.MemProfile(records, true)
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.MemProfileRecord, n+50)
	}
	for i := range records {
		if belowProfiled(records[i].Stack()) {
			allocations += records[i].AllocObjects
			live += records[i].InUseBytes()
		}
	}
	return allocations, live
}

// belowProfiled reports whether a call stack contains profiled.
func belowProfiled(stack []uintptr) bool {
	for frames := runtime.CallersFrames(stack); ; {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "/policytest.profiled") {
			return true
		}
		if !more {
			return false
		}
	}
}

// wide returns a short stream with a prompt of the given number of blocks and the budget of a small
// prompt. A lossy policy receives all of the prompt.
func wide(blocks int) *setting {
	const listed, windows, steps = 16, 4, 24
	r, sink, local := rand.New(rand.NewPCG(1, 39)), 0, 1
	stream := new(trace.Stream)
	stream.Reset(trace.StreamInfo{Key: trace.Key{Request: "wide", Head: trace.NoHead}, PromptLen: int32(blocks)})
	for step := -windows; step < steps; step++ {
		row := trace.Row{Step: int32(step)}
		for i := range listed { // one of each part of the prompt, with different values
			row.Indices = append(row.Indices, int32(i*(blocks/(2*listed))+r.IntN(blocks/(2*listed))))
		}
		stream.Append(row)
	}
	replaytest.Masses(r, stream, 1)
	meta := trace.Meta{Version: trace.Version, Order: trace.OrderRank, TopK: listed, Candidates: listed, BlockTokens: 1, Sink: &sink, Local: &local}
	return &setting{stream: stream, meta: meta, topK: listed, candidates: listed, capacity: 4 * listed, local: local, blockTokens: 1,
		warmup: replay.Warmup{Kind: replay.WarmupRun, Windows: windows}}
}
