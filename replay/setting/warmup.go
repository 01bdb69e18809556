package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Warmup is the way to fill a cell's cache before step 0 (SEMANTICS S8). Its text form parses back.
type Warmup struct {
	Kind    WarmupKind
	Windows int // number of windows, 0 if the kind uses none
	Scope   WarmupScope
}

// WarmupScope is the set of streams that an importance is summed over.
type WarmupScope string

// The scopes of an importance.
const (
	// ScopeStream sums the scores of a block in its own stream.
	ScopeStream WarmupScope = ""
	// ScopeRequest sums the scores of a position over all replayed streams of its request (KVDrive,
	// section 7.1: aggregated across heads and layers). It uses recorded scores. Attention weights
	// can be added, and other scores must be comparable.
	ScopeRequest WarmupScope = "request"
)

// WarmupKind is a way to fill the cache.
type WarmupKind string

// The ways to fill the cache.
const (
	// WarmupAuto is lru with as many windows as every stream has, or cold if a stream has none.
	WarmupAuto WarmupKind = "auto"
	// WarmupRun runs the cell's own policy over the last windows from an empty cache,
	// uncounted (ESS, LRU-Warmup).
	WarmupRun WarmupKind = "lru"
	// WarmupCold starts with an empty cache.
	WarmupCold WarmupKind = "cold"
	// WarmupImportance places the blocks with the largest summed score of the last windows
	// (KVDrive). It does so for each stream or, in a pool, over all its streams. Scope selects the
	// scores to sum.
	WarmupImportance WarmupKind = "importance"
	// WarmupStaging places the lowest blocks after the sinks.
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

// String returns the text form.
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

// Check refuses a warm-up that ParseWarmup cannot return. It accepts the zero value.
func (w Warmup) Check() error {
	if w == (Warmup{}) {
		return nil
	}
	_, err := ParseWarmup(w.String())
	return err
}

// Replayed returns the number of window rows that a cell replays.
func (w Warmup) Replayed() int {
	if w.Kind == WarmupRun {
		return w.Windows
	}
	return 0
}
