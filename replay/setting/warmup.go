package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Warmup is how a cell's cache is filled before step 0 (SEMANTICS S8). Its text form
// parses back.
type Warmup struct {
	Kind    WarmupKind
	Windows int // prompt windows used; 0 where the kind uses none
	Scope   WarmupScope
}

// WarmupScope is what an importance is of.
type WarmupScope string

// The scopes of an importance.
const (
	// ScopeStream sums the scores that a block is given in its own stream.
	ScopeStream WarmupScope = ""
	// ScopeRequest sums the scores that a position is given in all streams of its request
	// that are replayed (KVDrive, section 7.1: aggregated across heads and layers). Scores
	// are taken as recorded: attention weights add up, other scores must be comparable.
	ScopeRequest WarmupScope = "request"
)

// WarmupKind is a way to fill the cache.
type WarmupKind string

// The ways to fill the cache.
const (
	// WarmupAuto is lru with as many windows as every stream has, cold where one has none.
	WarmupAuto WarmupKind = "auto"
	// WarmupRun runs the cell's own policy over the last windows from an empty cache,
	// uncounted (ESS, LRU-Warmup).
	WarmupRun WarmupKind = "lru"
	// WarmupCold begins empty.
	WarmupCold WarmupKind = "cold"
	// WarmupImportance places the blocks with the largest summed score of the last
	// windows (KVDrive), stream by stream or, in a pool, over all its streams; Scope says
	// whose scores are summed.
	WarmupImportance WarmupKind = "importance"
	// WarmupStaging places the lowest blocks behind the sinks.
	WarmupStaging WarmupKind = "staging"
)

// ParseWarmup reads "auto", "lru:32", "cold", "importance:32", "importance:32,scope=request"
// or "staging".
func ParseWarmup(text string) (Warmup, error) {
	kind, count, has := strings.Cut(text, ":")
	count, scope, scoped := strings.Cut(count, ",scope=")
	w := Warmup{Kind: WarmupKind(kind)}
	switch w.Kind {
	case WarmupAuto, WarmupCold, WarmupStaging:
		if !has {
			return w, nil
		}
	case WarmupRun, WarmupImportance:
		n, err := strconv.Atoi(count)
		if scope == "request" {
			w.Scope = ScopeRequest
		}
		sound := !scoped || w.Kind == WarmupImportance && (scope == "request" || scope == "stream")
		if err == nil && n >= 1 && sound {
			w.Windows = n
			return w, nil
		}
	}
	return w, fmt.Errorf("warm-up %q: expected auto, lru:W, importance:W[,scope=request] (W ≥ 1 prompt windows), staging or cold", text)
}

// String is the text form.
func (w Warmup) String() string {
	if w.Windows == 0 {
		return string(w.Kind)
	}
	text := fmt.Sprintf("%s:%d", w.Kind, w.Windows)
	if w.Scope != ScopeStream {
		text += ",scope=" + string(w.Scope)
	}
	return text
}

// Check refuses a warm-up that ParseWarmup cannot give; the zero value is one.
func (w Warmup) Check() error {
	if w == (Warmup{}) {
		return nil
	}
	_, err := ParseWarmup(w.String())
	return err
}

// Replayed is the number of window rows that a cell runs over.
func (w Warmup) Replayed() int {
	if w.Kind == WarmupRun {
		return w.Windows
	}
	return 0
}
