package allocate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/trace"
)

// CostOf is the measure of a window's cost: KVDrive's "additional GPU memory consumed by that
// window size". A capacity costs itself.
type CostOf string

// The costs of a window.
const (
	// MeanResidents is the mean over steps of the entries that are resident after a step. This is
	// the memory that a window occupies, KVDrive's memory footprint. A pool that all layers and
	// heads share must hold their sum.
	MeanResidents CostOf = "mean"
	// PeakResidents is the largest number of entries that are resident after any step. Every layer
	// and head with memory of its own must reserve it.
	PeakResidents CostOf = "peak"
)

// Rows holds the comparable rows of one policy by request, layer and head.
type Rows struct {
	Family Family
	Policy string // "window" for windows
	sample result.Row
	parts  map[Request]map[Key]map[int]result.Row // by size
	// capacities holds the entries of a stream by the capacity's text.
	capacities map[string]map[Request]map[Key]int64
}

// windowPolicy is the policy whose rows make the curves of windows.
const (
	windowPolicy = "window"
	windowPrefix = windowPolicy + ":"
)

// groupOf returns the policy in Collect's terms: all windows are one.
func groupOf(r *result.Row) string {
	if r.Capacity == nil && strings.HasPrefix(r.Policy, windowPrefix) {
		return windowPolicy
	}
	return r.Policy
}

// Collect takes the rows of one policy that are of one stream each, from `replay --per stream`.
// policy is "window" for all windows, or empty if the rows have only one policy. Collect ignores
// coarser rows. It returns an error if no rows remain, if settings that change counts differ, or if
// rows contradict each other.
func Collect(rows []result.Row, policy string) (*Rows, error) {
	of, err := streamRows(rows, policy)
	if err != nil {
		return nil, err
	}
	if err := result.CheckPooled(result.Pointers(of)); err != nil {
		return nil, err
	}
	c := &Rows{Family: Capacities, Policy: groupOf(&of[0]), sample: of[0],
		parts: map[Request]map[Key]map[int]result.Row{}, capacities: map[string]map[Request]map[Key]int64{}}
	if c.Policy == windowPolicy {
		c.Family = Windows
	}
	for i := range of {
		if err := c.add(&of[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// groupsOf returns the groups of rows, sorted.
func groupsOf(rows []result.Row) []string {
	groups := slice.Map(rows, func(r result.Row) string { return groupOf(&r) })
	slices.Sort(groups)
	return slices.Compact(groups)
}

// streamRows selects the rows of one policy that state their layer and head.
func streamRows(rows []result.Row, policy string) ([]result.Row, error) {
	var of []result.Row
	pooled := 0
	known := groupsOf(rows)
	policy = policies.Named(policy, known)
	for i := range rows {
		r := &rows[i]
		switch {
		case policy != "" && groupOf(r) != policy:
		case r.RequestID == nil || r.LayerID == nil || r.Streams != 1:
			pooled++
		default:
			of = append(of, *r)
		}
	}
	groups := groupsOf(of)
	for i := range of {
		if of[i].Lossy {
			return nil, fmt.Errorf("%s is lossy, so its rows do not show the fetches that memory saves: profile an exact policy", of[i].Policy)
		}
		if r := &of[i]; r.Pool != "" || r.Reallocation != "" {
			return nil, fmt.Errorf("rows of shared or changing caches (pool %q, reallocation %q) have no curve per layer and head: replay without --pool and --reallocate, or add --where pool=", r.Pool, r.Reallocation)
		}
	}
	switch {
	case len(of) == 0 && pooled > 0:
		return nil, fmt.Errorf("the rows are pooled over streams, so they have no curve per layer and head: replay with --per stream")
	case len(of) == 0 && policy != "":
		return nil, fmt.Errorf("no rows of policy %q%s; the rows have: %s", policy, names.Nearest(policy, known), names.Some(known))
	case len(of) == 0:
		return nil, errors.New("no rows")
	case policy == "" && len(groups) > 1:
		return nil, fmt.Errorf("the rows have several policies: choose one with --policy: %s", names.Some(groups))
	}
	return of, nil
}

// add adds a row. Runs that share a folder can repeat a cell, and the counts must then be equal.
func (c *Rows) add(r *result.Row) error {
	at := Request{r.Trace, r.TraceDigest, *r.RequestID}
	key := Key{*r.LayerID, optional.Or(r.Head, trace.NoHead)}
	size, isSize, err := c.size(r)
	if err != nil {
		return err
	}
	if r.Capacity != nil && r.CapacityEntries != nil {
		of := inner(inner(c.capacities, *r.Capacity), at)
		of[key] = *r.CapacityEntries
	}
	if !isSize {
		return nil
	}
	of := inner(inner(c.parts, at), key)
	if old, ok := of[size]; ok && !agree(&old, r) {
		return fmt.Errorf("two rows of request %s, %v, %s at size %d disagree: %d and %d misses of %d and %d demanded", at.ID, key, r.Policy, size, old.Misses, r.Misses, old.Demand, r.Demand)
	}
	of[size] = *r
	return nil
}

// inner returns the map at a key and makes it if it is missing.
func inner[K, L comparable, V any](m map[K]map[L]V, key K) map[L]V {
	if m[key] == nil {
		m[key] = map[L]V{}
	}
	return m[key]
}

// size returns the row's size. ok is false for rows that are not a point of a curve, because their
// capacity is another policy's peak or a plan's.
func (c *Rows) size(r *result.Row) (size int, ok bool, err error) {
	if c.Family == Windows {
		size, err = strconv.Atoi(strings.TrimPrefix(r.Policy, windowPrefix))
		if err != nil {
			return 0, false, fmt.Errorf("policy %q: expected window:N", r.Policy)
		}
		return size, true, nil
	}
	if r.Capacity == nil {
		return 0, false, fmt.Errorf("policy %s has no capacity to divide: choose another, or all windows with --policy window", r.Policy)
	}
	if _, err := parseSize(*r.Capacity); err != nil || r.CapacityEntries == nil {
		return 0, false, nil
	}
	return int(*r.CapacityEntries), true, nil
}

// agree reports whether two rows have equal counts.
func agree(a, b *result.Row) bool {
	return a.Steps == b.Steps && a.Demand == b.Demand && a.Misses == b.Misses && a.Prefetched == b.Prefetched &&
		a.ResidentMean == b.ResidentMean && a.ResidentPeak == b.ResidentPeak
}

// Request is a request of a trace.
type Request struct {
	Trace  string `json:"trace"` // file name
	Digest string `json:"trace_digest"`
	ID     string `json:"request_id"`
}

func compareRequests(a, b Request) int {
	return cmp.Or(strings.Compare(a.Trace, b.Trace), strings.Compare(a.ID, b.ID))
}

// byTrace divides requests, which are sorted, by their trace.
func byTrace(requests []Request) [][]Request {
	return slice.Runs(requests, func(a, b Request) bool { return a.Trace == b.Trace })
}

// matches reports whether a pattern selects the request by its id, its trace's file name or
// TRACE/ID. * and ? match anything.
func (r Request) matches(pattern string) bool {
	for _, name := range []string{r.ID, r.Trace, r.Trace + "/" + r.ID} {
		if ok, err := path.Match(pattern, name); pattern == name || ok && err == nil {
			return true
		}
	}
	return false
}

// Requests returns all requests, by trace and then id.
func (c *Rows) Requests() []Request {
	return slices.SortedFunc(maps.Keys(c.parts), compareRequests)
}

// Select returns the requests that any of the patterns matches: an id, a trace's file name or
// TRACE/ID, with * and ?. A pattern that matches none is an error.
func (c *Rows) Select(patterns []string) ([]Request, error) {
	all := c.Requests()
	var selected []Request
	for _, pattern := range patterns {
		found := slice.Filter(all, func(r Request) bool { return r.matches(pattern) })
		if selected = append(selected, found...); len(found) == 0 {
			ids := idsOf(all)
			return nil, fmt.Errorf("no rows of request %q%s; the rows have %s", pattern, names.Nearest(pattern, ids), names.Some(ids))
		}
	}
	slices.SortFunc(selected, compareRequests)
	return slices.Compact(selected), nil
}

// idsOf returns the distinct ids, sorted.
func idsOf(requests []Request) (ids []string) {
	ids = slice.Map(requests, func(r Request) string { return r.ID })
	slices.Sort(ids)
	return slices.Compact(ids)
}
