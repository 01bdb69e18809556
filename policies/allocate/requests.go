package allocate

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Request is a request of a trace.
type Request struct {
	Trace  string `json:"trace"` // file name
	Digest string `json:"trace_digest"`
	ID     string `json:"request_id"`
}

func compareRequests(a, b Request) int {
	return cmp.Or(strings.Compare(a.Trace, b.Trace), strings.Compare(a.ID, b.ID))
}

// matches says whether a pattern selects the request: its id, its trace's file name or
// TRACE/ID, * and ? standing for anything.
func (r Request) matches(pattern string) bool {
	for _, name := range []string{r.ID, r.Trace, r.Trace + "/" + r.ID} {
		if ok, err := path.Match(pattern, name); pattern == name || ok && err == nil {
			return true
		}
	}
	return false
}

// Requests are all requests, by trace, then id.
func (c *Rows) Requests() []Request {
	var all []Request
	for r := range c.parts {
		all = append(all, r)
	}
	slices.SortFunc(all, compareRequests)
	return all
}

// Select are the requests that any of the patterns matches: an id, a trace's file name
// or TRACE/ID, with * and ?. A pattern that matches none is an error.
func (c *Rows) Select(patterns []string) ([]Request, error) {
	all := c.Requests()
	var selected []Request
	for _, pattern := range patterns {
		before := len(selected)
		for _, r := range all {
			if r.matches(pattern) {
				selected = append(selected, r)
			}
		}
		if len(selected) == before {
			ids := idsOf(all)
			return nil, fmt.Errorf("request %q is not in the rows%s; they have %s", pattern, names.Nearest(pattern, ids), names.Some(ids))
		}
	}
	slices.SortFunc(selected, compareRequests)
	return slices.Compact(selected), nil
}

// idsOf are the distinct ids, sorted.
func idsOf(requests []Request) (ids []string) {
	for _, r := range requests {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
