package serving

import (
	"math"
	"math/bits"
)

// Spread is a distribution of times in ns.
type Spread struct {
	Mean int64 `json:"mean_ns"`
	P50  int64 `json:"p50_ns"`
	P90  int64 `json:"p90_ns"`
	P99  int64 `json:"p99_ns"`
}

// histogram counts times in cells whose width is at most a 1024th of the time, so that its size does
// not depend on their number.
type histogram struct {
	cells [55 << cellBits]int64
	count int64
	sum   float64
}

const cellBits = 10

func (h *histogram) add(ns int64) {
	h.cells[cell(ns)]++
	h.count++
	h.sum += float64(ns)
}

// cell returns the place of a time. Times below 2¹⁰ ns have their own.
func cell(ns int64) int {
	shift := max(0, bits.Len64(uint64(ns))-cellBits-1)
	return shift<<cellBits + int(ns>>shift)
}

// spread returns the distribution.
func (h *histogram) spread() Spread {
	return Spread{int64(math.Round(h.sum / float64(max(1, h.count)))), h.quantile(0.5), h.quantile(0.9), h.quantile(0.99)}
}

// quantile returns the least time of the cell in which at least a share of the times has ended, 0
// without times.
func (h *histogram) quantile(share float64) int64 {
	left := max(1, int64(math.Ceil(share*float64(h.count))))
	for i, n := range h.cells {
		if left -= n; left <= 0 {
			shift := max(0, i>>cellBits-1)
			return int64(i-shift<<cellBits) << shift
		}
	}
	return 0
}

// percentiles returns the quantiles of 1 to 99 %, nil without times.
func (h *histogram) percentiles() (all []int64) {
	if h.count == 0 {
		return nil
	}
	for i := 1; i <= 99; i++ {
		all = append(all, h.quantile(float64(i)/100))
	}
	return all
}

// SLO states the longest times of requests, in ns. 0 is none.
type SLO struct {
	TTFT int64 `json:"ttft_ns,omitempty"`
	TPOT int64 `json:"tpot_ns,omitempty"`
}

// Limits are the limits of requests by class. Those of "" are the limits of classes without own ones.
type Limits map[string]SLO

// TPOT returns the shortest limit of a token, in ns, 0 for none.
func (l Limits) TPOT() (least int64) {
	for _, slo := range l {
		if slo.TPOT > 0 && (least == 0 || slo.TPOT < least) {
			least = slo.TPOT
		}
	}
	return least
}

// of returns the limits of a class.
func (l Limits) of(class string) SLO {
	if own, ok := l[class]; ok {
		return own
	}
	return l[""]
}

// met reports whether a request keeps the limits.
func (s SLO) met(r *RequestRow) (ttft, tpot bool) {
	return s.TTFT == 0 || r.TTFT() <= s.TTFT, s.TPOT == 0 || r.TPOT() <= s.TPOT
}

// Summary reduces the rows of a run. Its size depends on the number of classes alone.
type Summary struct {
	Requests     int64   `json:"requests"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	ReusedTokens int64   `json:"reused_tokens"`
	Preemptions  int64   `json:"preemptions"`
	Steps        int64   `json:"steps"`
	Duration     int64   `json:"duration_ns"` // until the last token
	Busy         int64   `json:"busy_ns"`     // in iterations
	Throughput   float64 `json:"output_tokens_per_s"`
	Rate         float64 `json:"requests_per_s,omitzero"` // arrivals, 0 if all requests arrive at once
	Latency
	// Running, Waiting, KV and Uncached are means over time while iterations run.
	Running     float64 `json:"running_mean"`
	MostRunning int     `json:"running_max"`
	Waiting     float64 `json:"waiting_mean"`
	KV          float64 `json:"kv_blocks_mean"`
	MostKV      int     `json:"kv_blocks_max"`
	Blocks      int     `json:"kv_blocks_capacity"` // of all replicas
	Memory      int64   `json:"memory_max_bytes"`
	Uncached    float64 `json:"uncached_mean"`
	ToGPU       int64   `json:"to_gpu_bytes"`
	ToHost      int64   `json:"to_host_bytes"`
	// Goodput is the largest rate of arrivals, in requests/s, at which the attainment holds. It is 0 if
	// no tried rate is small enough, and nil if it was not searched.
	Goodput *float64 `json:"goodput_requests_per_s,omitempty"`
	// Classes are in the order of the names.
	Classes []*ClassSummary `json:"classes,omitempty"`

	limits Limits
	last   int64 // arrival
}

// ClassSummary has the requests of a class.
type ClassSummary struct {
	Class    string `json:"class"`
	Requests int64  `json:"requests"`
	Latency
	slo SLO
}

// Latency has the times of requests.
type Latency struct {
	Queue Spread `json:"queue"`
	TTFT  Spread `json:"ttft"`
	TPOT  Spread `json:"tpot,omitzero"` // of requests with two or more tokens, 0 if there are none
	// Attainment is the share of requests that meet all limits. The others count one limit. JSON and CSV
	// leave them out if the requests have no limits.
	Attainment     Share64 `json:"attainment,omitzero"`
	AttainmentTTFT Share64 `json:"ttft_attainment,omitzero"`
	AttainmentTPOT Share64 `json:"tpot_attainment,omitzero"`

	queue, ttft, tpot histogram
	met               [3]int64
}

func (l *Latency) add(r *RequestRow, slo SLO) {
	l.queue.add(r.Queue())
	l.ttft.add(r.TTFT())
	if r.Output > 1 {
		l.tpot.add(r.TPOT())
	}
	ttft, tpot := slo.met(r)
	for i, met := range []bool{ttft && tpot, ttft, tpot} {
		if met {
			l.met[i]++
		}
	}
}

// Share64 is a share from 0 to 1, or NaN if it is undefined.
type Share64 float64

// IsZero reports whether the share is undefined, so that JSON leaves it out.
func (s Share64) IsZero() bool { return math.IsNaN(float64(s)) }

// defined returns the share, or nil.
func (s Share64) defined() *float64 {
	if s.IsZero() {
		return nil
	}
	return new(float64(s))
}

// Percentiles returns the times within which 1 to 99 % of the requests have their first token, and
// those of a further token, in ns. They are nil without such requests.
func (l *Latency) Percentiles() (ttft, tpot []int64) {
	return l.ttft.percentiles(), l.tpot.percentiles()
}

// finish computes the figures of all requests, which have limits or not.
func (l *Latency) finish(limited bool) {
	l.Queue, l.TTFT, l.TPOT = l.queue.spread(), l.ttft.spread(), l.tpot.spread()
	for i, v := range []*Share64{&l.Attainment, &l.AttainmentTTFT, &l.AttainmentTPOT} {
		*v = Share64(float64(l.met[i]) / float64(max(1, l.queue.count)))
		if !limited {
			*v = Share64(math.NaN())
		}
	}
}

// class returns the summary of a class, which it adds if need be.
func (s *Summary) class(name string) *ClassSummary {
	for _, c := range s.Classes {
		if c.Class == name {
			return c
		}
	}
	all := append(s.Classes, &ClassSummary{Class: name, slo: s.limits.of(name)})
	i := len(all) - 1
	for ; i > 0 && all[i].Class < all[i-1].Class; i-- {
		all[i], all[i-1] = all[i-1], all[i]
	}
	s.Classes = all
	return all[i]
}

// judged reports whether any request has limits.
func (s *Summary) judged() bool { return len(s.limits) > 0 }

// attainment returns the least attainment of a class that has limits.
func (s *Summary) attainment() float64 {
	least := float64(s.Attainment)
	for _, c := range s.Classes {
		if !c.Attainment.IsZero() {
			least = min(least, float64(c.Attainment))
		}
	}
	return least
}

// NewSummary returns an empty summary of a run with o.
func NewSummary(o Options) *Summary {
	return &Summary{limits: o.Limits, Blocks: o.most() * max(1, o.Replicas)}
}

// Request adds a request.
func (s *Summary) Request(r *RequestRow) error {
	s.Requests++
	s.InputTokens += int64(r.Input)
	s.OutputTokens += int64(r.Output)
	s.ReusedTokens += int64(r.Reused)
	s.Preemptions += int64(r.Preemptions)
	s.Duration, s.last = max(s.Duration, r.Finish), max(s.last, r.Arrival)
	s.add(r, s.limits.of(r.Class))
	if r.Class != "" {
		c := s.class(r.Class)
		c.Requests++
		c.add(r, c.slo)
	}
	return nil
}

// Step adds an iteration.
func (s *Summary) Step(r *StepRow) error {
	ns := r.End - r.Start
	weight := float64(ns)
	s.Steps++
	s.Busy += ns
	s.Running += weight * float64(r.Running)
	s.Waiting += weight * float64(r.Waiting)
	s.KV += weight * float64(r.Blocks)
	s.Uncached += weight * float64(r.Uncached) / Share
	s.MostRunning, s.MostKV, s.Memory = max(s.MostRunning, r.Running), max(s.MostKV, r.Blocks), max(s.Memory, r.Memory())
	s.ToGPU += r.ToGPU
	s.ToHost += r.ToHost
	return nil
}

// finish computes the figures that are not sums.
func (s *Summary) finish() {
	s.Latency.finish(s.judged())
	for _, c := range s.Classes {
		c.finish(c.slo != (SLO{}))
	}
	for _, v := range []*float64{&s.Running, &s.Waiting, &s.KV, &s.Uncached} {
		*v /= float64(max(1, s.Busy))
	}
	if s.Duration > 0 {
		s.Throughput = float64(s.OutputTokens) / (float64(s.Duration) / 1e9)
	}
	if s.last > 0 {
		s.Rate = float64(s.Requests-1) / (float64(s.last) / 1e9)
	}
}
