package result

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Check returns an error if a row cannot be true. Its schema is known, and counts are not negative.
// hits + misses + lost = demand, and means agree with their sums. Bytes exist exactly if
// entry_bytes does, and those to the device are moved_entries × entry_bytes. A head names its layer.
// Readers and writers reject rows that fail.
func (r *Row) Check() error {
	if err := r.checkSchema(); err != nil {
		return err
	}
	for i := range rowFields {
		if err := rowFields[i].check(r); err != nil {
			return fmt.Errorf("field %s: %w", rowFields[i].name, err)
		}
	}
	return errors.Join(r.checkCounts(), r.checkIdentity()) // fields that depend on each other
}

func (r *Row) checkSchema() error {
	if r.Schema != RowSchema {
		return fmt.Errorf("row schema %d, this program reads schema %d: replay the trace again, and remove this file", r.Schema, RowSchema)
	}
	return nil
}

func (r *Row) checkCounts() error {
	switch {
	case r.Hits > r.Demand || r.Misses > r.Demand-r.Hits || r.Demand-r.Hits-r.Misses != r.Lost:
		return fmt.Errorf("hits %d + misses %d + lost %d ≠ demand %d", r.Hits, r.Misses, r.Lost, r.Demand)
	case r.Lossy && r.Misses > 0 || !r.Lossy && r.Lost > 0:
		return fmt.Errorf("lossy is %v with %d misses and %d lost: a lossy policy has no misses, an exact one loses nothing", r.Lossy, r.Misses, r.Lost)
	case (r.Recall != nil) != r.Lossy:
		return errors.New("recall must be set if and only if lossy is true")
	case r.Lossy && !near(*r.Recall, RecallOf(r.Demand, r.Lost)):
		return fmt.Errorf("recall %v ≠ 1 - lost %d ÷ demand %d", *r.Recall, r.Lost, r.Demand)
	}
	if err := r.checkShares(); err != nil {
		return err
	}
	if want := PerStep(float64(r.Demand), r.Steps); !near(r.DemandMean, want) {
		return fmt.Errorf("demand_mean %v ≠ demand %d ÷ steps %d", r.DemandMean, r.Demand, r.Steps)
	}
	if peak := float64(r.ResidentPeak); r.ResidentMean > peak && !near(r.ResidentMean, peak) {
		return fmt.Errorf("resident_mean %v > resident_peak %d", r.ResidentMean, r.ResidentPeak)
	}
	known := r.EntryBytes != nil
	if known != (r.HostToDeviceBytes != nil) || known != (r.DeviceToHostBytes != nil) {
		return errors.New("host_to_device_bytes and device_to_host_bytes must be set if and only if entry_bytes is")
	}
	if known && !product(*r.HostToDeviceBytes, r.MovedEntries, int64(*r.EntryBytes)) {
		return fmt.Errorf("host_to_device_bytes %d ≠ moved_entries %d × entry_bytes %d", *r.HostToDeviceBytes, r.MovedEntries, *r.EntryBytes)
	}
	if r.Prefetched != r.PrefetchUseful+r.PrefetchUseless {
		return fmt.Errorf("prefetched %d ≠ useful %d + useless %d", r.Prefetched, r.PrefetchUseful, r.PrefetchUseless)
	}
	return r.checkEntries()
}

// product reports whether p is a × b. None is negative, and the product of a wrong row may exceed int64.
func product(p, a, b int64) bool {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return high == 0 && low == uint64(p)
}

// RecallOf returns the share of the demand that was not lost, 1 without demand.
func RecallOf(demand, lost int64) float64 {
	if demand == 0 {
		return 1
	}
	return 1 - float64(lost)/float64(demand)
}

func (r *Row) checkShares() error {
	k, c, s := r.KeptMass, r.CoveredMass, r.SelectorRecall
	switch {
	case k != nil && c == nil || c != nil && !r.Lossy:
		return errors.New("kept_mass needs covered_mass, and both need lossy to be true")
	case k != nil && *k > *c && !near(*k, *c):
		return fmt.Errorf("kept_mass %v exceeds covered_mass %v", *k, *c)
	case c != nil && *c > 1 && !near(*c, 1):
		return fmt.Errorf("covered_mass %v: expected a share, 0 to 1", *c)
	case s != nil && (*s > 1 || r.Selector == ""):
		return fmt.Errorf("selector_recall %v of selector %q: expected a share, 0 to 1, and the selector's name", *s, r.Selector)
	}
	return nil
}

func (r *Row) checkEntries() error {
	d, m := r.DemandEntries, r.MissedEntries
	switch {
	case (d != nil) != (m != nil):
		return errors.New("demand_entries and missed_entries must be set together")
	case d != nil && (*m > *d || *d < r.Demand || *m < r.Misses || *m > 0 && r.Misses == 0):
		return fmt.Errorf("missed_entries %d of demand_entries %d contradict misses %d of demand %d", *m, *d, r.Misses, r.Demand)
	case r.ReadAmplification != nil && (m == nil || *m == 0 || !near(*r.ReadAmplification, float64(r.MovedEntries)/float64(*m))):
		return fmt.Errorf("read_amplification %v ≠ moved_entries %d ÷ missed_entries", *r.ReadAmplification, r.MovedEntries)
	}
	return nil
}

func (r *Row) checkIdentity() error {
	switch {
	case r.Trace == "" || r.Policy == "":
		return errors.New("trace or policy is empty")
	case r.PolicyFingerprint == "":
		return errors.New("policy_fingerprint is empty: `kvreplay policies describe` prints it")
	case r.TopK < 1 || r.BlockTokens < 1 || r.StepTokens < 1 || r.SharedHeads < 1:
		return fmt.Errorf("topk %d, block_tokens %d, step_tokens %d and shared_heads %d must be ≥ 1", r.TopK, r.BlockTokens, r.StepTokens, r.SharedHeads)
	case r.Tier < 0 || r.Tier > len(strings.Fields(r.Tiers)) || r.Tier > 0 && (r.Above == "" || r.Capacity == nil):
		return fmt.Errorf("tier %d contradicts tiers %q, above %q or capacity", r.Tier, r.Tiers, r.Above)
	case r.Capacity != nil && *r.Capacity == "":
		return errors.New("capacity is empty; null means none")
	case r.Capacity != nil && !KnownCapacity(*r.Capacity):
		return fmt.Errorf("capacity %q: expected 1.5x, 0.2ctx, 6400, 64MiB, peak:POLICY, plan:METHOD@SIZE or 1x+2x@64", *r.Capacity)
	}
	return r.checkPart()
}

// checkPart checks the fields of checkIdentity in which rows of one kind (SameKind) may differ.
func (r *Row) checkPart() error {
	switch {
	case r.Head != nil && r.LayerID == nil:
		return fmt.Errorf("head %d without layer_id", *r.Head)
	case r.RequestID != nil && *r.RequestID == "":
		return errors.New("request_id is empty; null means pooled")
	}
	return nil
}

// check tests the constraints of a field's kind.
func (f *field) check(r *Row) error {
	v := f.value(r)
	if f.nullable() {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		if v.Int() < 0 {
			return fmt.Errorf("%d is negative", v.Int())
		}
	case reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return fmt.Errorf("%v is not a number ≥ 0", x)
		}
	case reflect.String:
		if s := v.String(); !Printable(s) {
			return fmt.Errorf("%q is not printable UTF-8", s)
		}
	case reflect.Slice:
		for _, w := range r.Warnings {
			if !utf8.ValidString(w) {
				return fmt.Errorf("%q is not UTF-8", w)
			}
		}
	}
	return nil
}

// Printable reports whether a row can state s: a line of a table can show it and CSV can
// carry it.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// PerStep returns x ÷ steps, 0 without steps.
func PerStep(x float64, steps int64) float64 {
	if steps == 0 {
		return 0
	}
	return x / float64(steps)
}

// near reports whether a and b are equal up to the rounding of a mean that was computed in another
// order.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }
