package serving

import "slices"

// mostSpans bounds the spans of a Timeline.
const mostSpans = 256

// firstWidth is the width of the spans of a run that has begun, in ns.
const firstWidth = 1 << 20

// Pools are the names of the pools of memory, in the order of Span.Memory.
var Pools = [4]string{"weights", "activations", "buffers", "KV"}

// Span is the state of an engine in a part of a run.
type Span struct {
	// Running and Waiting are means of the numbers of requests over the time of the span.
	Running, Waiting float64
	// Memory is the largest memory of each pool, in bytes of one GPU.
	Memory [len(Pools)]int64
}

// Timeline divides a run into spans of equal width. If there are more than mostSpans, it joins
// neighbours, so that its size does not depend on the run.
type Timeline struct {
	Width int64 // of a span, in ns
	spans []Span
	end   int64 // of the run
}

// Step adds an iteration. Running and Waiting are sums over time until Spans divides them.
func (t *Timeline) Step(r *StepRow) error {
	t.end = r.End
	t.Widen(max(t.Width, firstWidth))
	for r.End > t.Width*mostSpans {
		t.Widen(2 * t.Width)
	}
	for start := r.Start; start < r.End; {
		i := int(start / t.Width)
		end := min(r.End, int64(i+1)*t.Width)
		for len(t.spans) <= i {
			t.spans = append(t.spans, Span{})
		}
		s := &t.spans[i]
		s.Running += float64(end-start) * float64(r.Running)
		s.Waiting += float64(end-start) * float64(r.Waiting)
		s.widen([len(Pools)]int64{r.Weights, r.Activations, r.Buffers, r.KV})
		start = end
	}
	return nil
}

func (s *Span) widen(memory [len(Pools)]int64) {
	for k, bytes := range memory {
		s.Memory[k] = max(s.Memory[k], bytes)
	}
}

// Widen joins neighbours until spans have at least a width of firstWidth times a power of two, in ns.
func (t *Timeline) Widen(width int64) {
	for t.Width = max(t.Width, firstWidth); t.Width < width; t.Width *= 2 {
		for i, s := range t.spans {
			if i%2 == 0 {
				t.spans[i/2] = s
				continue
			}
			to := &t.spans[i/2]
			to.Running, to.Waiting = to.Running+s.Running, to.Waiting+s.Waiting
			to.widen(s.Memory)
		}
		t.spans = t.spans[:(len(t.spans)+1)/2]
	}
}

// Spans returns the spans in order of time. A span without iterations has only the weights.
func (t *Timeline) Spans() []Span {
	all := slices.Clone(t.spans)
	for i := range all {
		s := &all[i]
		time := float64(min(t.Width, t.end-int64(i)*t.Width))
		s.Running, s.Waiting = s.Running/time, s.Waiting/time
		s.Memory[0] = max(s.Memory[0], all[len(all)-1].Memory[0])
	}
	return all
}
