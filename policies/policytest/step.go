package policytest

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay"
)

// step is the outcome of one step of a cell. Only the model knows before, demand and born. For a
// lossy policy misses are lost blocks, and the first step is the end of the prompt.
type step struct {
	T              int32
	before, demand []int32
	born           []int32
	births         int
	misses         []int32 // ascending, as all below
	victims        []int32
	keptOut        []int32
	resident       int // after the step
}

func sorted(blocks []int32) []int32 {
	s := slices.Clone(blocks)
	slices.Sort(s)
	return s
}

// replayEngine replays the setting with the engine and returns the history of all steps. A panic of
// the policy is an error.
func replayEngine(c *setting, p *probe) (steps []step, counts replay.Counts, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panics in %s: %v\n%s%s", p.at, r, stackOf(debug.Stack()), p.story())
		}
	}()
	observe := func(r *replay.StepReport) {
		if p.rule == lose && r.T < 0 { // windows are part of the prompt
			return
		}
		steps = append(steps, step{T: r.T, births: r.Births, misses: slices.Concat(r.Misses, r.Lost),
			victims: sorted(r.Victims), keptOut: slices.Clone(r.KeptOut), resident: r.Resident})
	}
	counts, err = new(replay.Engine).RunStream(c.stream, &c.meta, wrap(p), c.streamOptions(observe))
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, p.story())
	}
	if p.rule == lose {
		steps = append([]step{{T: -1, victims: sorted(p.ofPrompt)}}, steps...)
	}
	return steps, counts, err
}

// catch turns a panic of the policy into an error if calls are made without an engine. It is
// deferred.
func catch(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panics: %v\n%s", r, stackOf(debug.Stack()))
	}
}

// stackOf returns the policy's part of a stack: from the panic to the probe.
func stackOf(stack []byte) string {
	var kept strings.Builder
	lines := strings.Split(string(stack), "\n")
	for i := 1; i+1 < len(lines); i += 2 { // a line for the function, one for the place
		switch function := lines[i]; {
		case strings.Contains(function, "policytest.(*probe)"), strings.Contains(function, "policytest.(*lossyProbe)"), strings.Contains(function, "policytest.(*bypassProbe)"),
			strings.Contains(function, "policytest.(*call)"), strings.Contains(function, "policytest.(*script)"), strings.Contains(function, "policytest.(*suite)"):
			return kept.String()
		case strings.HasPrefix(function, "panic("), strings.HasPrefix(function, "runtime."), strings.Contains(function, "debug.Stack"), strings.Contains(function, "policytest.replayEngine"), strings.Contains(function, "policytest.catch"):
		default:
			fmt.Fprintf(&kept, "%s\n%s\n", function, lines[i+1])
		}
	}
	return kept.String()
}

// fresh returns a new instance behind a probe.
func (s *suite) fresh() *probe { return &probe{policy: s.make(), rule: s.rule} }

// differ returns the first difference of two histories as an error. a and b are their names.
func differ(a, b string, x, y []step) error {
	for i := range min(len(x), len(y)) {
		for _, f := range []struct {
			what string
			x, y []int32
		}{
			{"misses", x[i].misses, y[i].misses}, {"keeps out", x[i].keptOut, y[i].keptOut}, {"evicts", x[i].victims, y[i].victims},
		} {
			if !slices.Equal(f.x, f.y) {
				return fmt.Errorf("step T = %d: %s %s %v, %s %v%s", x[i].T, a, f.what, f.x, b, f.y, around(x, y, i))
			}
		}
		if x[i].T != y[i].T || x[i].births != y[i].births || x[i].resident != y[i].resident {
			return fmt.Errorf("step T = %d: %s has %d births and %d residents, %s has T = %d with %d and %d", x[i].T, a, x[i].births, x[i].resident, b, y[i].T, y[i].births, y[i].resident)
		}
	}
	if len(x) != len(y) {
		return fmt.Errorf("%s has %d steps, %s %d", a, len(x), b, len(y))
	}
	return nil
}

// around shows the steps up to the i-th, from the model if one history is the model's.
func around(x, y []step, i int) string {
	known := y
	if known[i].before == nil && known[i].demand == nil {
		known = x
	}
	if known[i].before == nil && known[i].demand == nil {
		return ""
	}
	var b strings.Builder
	for _, s := range known[max(0, i-6) : i+1] {
		fmt.Fprintf(&b, "\n  T = %3d: residents %v, births %v, demand %v, misses %v, kept out %v, evicted %v", s.T, s.before, s.born, s.demand, s.misses, s.keptOut, s.victims)
	}
	return b.String()
}
