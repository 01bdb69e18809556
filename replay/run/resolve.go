package run

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// checkTexts rejects names that rows cannot state.
func (p *plan) checkTexts() error {
	for _, written := range []struct{ what, text string }{{"file name", filepath.Base(p.file.Path())}, {"model", p.meta.Model}} {
		if !result.Printable(written.text) {
			return fmt.Errorf("the %s %q is not printable UTF-8, so rows cannot state it. Rename it", written.what, written.text)
		}
	}
	for _, s := range p.file.Streams() {
		if !result.Printable(s.Request) {
			return fmt.Errorf("the request id %q is not printable UTF-8, so rows cannot state it. Rename it", s.Request)
		}
		if s.Request == "" && (p.opt.Per == PerRequest || p.opt.Per == PerStream) {
			return fmt.Errorf("a request id is empty, so rows per %s cannot state it. Rename it, or use --per cell or layer", p.opt.Per)
		}
	}
	return nil
}

func (p *plan) resolveLists() error {
	p.topk, p.m = cmp.Or(p.opt.TopK, p.meta.TopK), cmp.Or(p.opt.Candidates, p.meta.Candidates)
	switch {
	case p.topk < 0 || p.m < 0:
		return fmt.Errorf("top-k %d and candidates %d, expected at least 1 each", p.topk, p.m)
	case p.m > p.meta.Candidates:
		return fmt.Errorf("candidates M = %d, the trace lists at most %d", p.m, p.meta.Candidates)
	case p.topk > p.m:
		return fmt.Errorf("top-k K = %d exceeds candidates M = %d, expected at most M", p.topk, p.m)
	case !p.ranks && p.topk != p.meta.TopK:
		return fmt.Errorf("top-k %d: the lists have no ranks (order=index), expected the recorded K = %d", p.topk, p.meta.TopK)
	}
	return nil
}

func (p *plan) resolveShape() (err error) {
	p.layout, err = demand.NewLayout(p.opt.Shape, p.meta)
	return err
}

func (p *plan) resolveWarmup() (err error) {
	w := p.opt.Warmup
	w.Kind = cmp.Or(w.Kind, setting.WarmupAuto)
	infos := make([]trace.StreamInfo, len(p.streams))
	for i := range p.streams {
		infos[i] = *p.selected(i)
	}
	if p.warmup, err = resolveWarmup(w, infos); err != nil {
		return err
	}
	if p.warmup.Kind == setting.WarmupImportance && !p.file.HasScores() {
		return fmt.Errorf("warm-up %v needs scores, the trace has none", p.warmup)
	}
	fewest, most := windowRange(infos)
	switch auto := w.Kind == setting.WarmupAuto; {
	case p.warmup.Kind == setting.WarmupCold && most == 0:
		p.warnings = append(p.warnings, "cold start: the trace has no prompt windows")
	case p.warmup.Kind == setting.WarmupCold && auto:
		p.warnings = append(p.warnings, fmt.Sprintf("cold start: %v has no prompt windows, others have up to %d", fewest.Key, most))
	case p.warmup.Kind == setting.WarmupCold:
		p.warnings = append(p.warnings, "cold start: no warm-up before step 0")
	case auto && fewest.Windows < most:
		p.notes = append(p.notes, fmt.Sprintf("%v has %d prompt windows, others up to %d: all warm up on the last %d (--requests and --layers exclude streams)",
			fewest.Key, fewest.Windows, most, fewest.Windows))
	}
	return nil
}

// resolveWarmup replaces auto by a warm-up that all streams can serve. It rejects a warm-up with
// more windows than a stream has.
func resolveWarmup(w setting.Warmup, streams []trace.StreamInfo) (setting.Warmup, error) {
	at, _ := windowRange(streams)
	least := at.Windows
	if w.Kind == setting.WarmupAuto {
		if least == 0 {
			return setting.Warmup{Kind: setting.WarmupCold}, nil
		}
		return setting.Warmup{Kind: setting.WarmupRun, Windows: least}, nil
	}
	if w.Windows > least {
		return w, fmt.Errorf("warm-up %v needs %d prompt windows, but %v has %d (steps below 0). Choose fewer, or cold", w, w.Windows, at.Key, least)
	}
	return w, nil
}

// windowRange returns the first stream with the fewest windows, and the most windows of any.
func windowRange(streams []trace.StreamInfo) (fewest trace.StreamInfo, most int) {
	byWindows := func(a, b trace.StreamInfo) int { return cmp.Compare(a.Windows, b.Windows) }
	return slices.MinFunc(streams, byWindows), slices.MaxFunc(streams, byWindows).Windows
}

func (p *plan) resolvePins() error {
	p.pins = pinsOf(p.meta, p.opt)
	if p.pins.Sink < 0 || p.pins.Local < 1 {
		return fmt.Errorf("sink %d and local %d, expected at least 0 and 1 (the token being decoded)", p.pins.Sink, p.pins.Local)
	}
	for _, pin := range []struct {
		name           string
		stated, option *int
	}{{"sink", p.meta.Sink, p.opt.Sink}, {"local", p.meta.Local, p.opt.Local}} {
		if pin.option != nil && pin.stated != nil && *pin.option != *pin.stated {
			p.warnings = append(p.warnings, fmt.Sprintf("replayed with %s %d, the trace states %d", pin.name, *pin.option, *pin.stated))
		}
	}
	if note, names := UnstatedPins(p.meta, p.opt); note != "" {
		p.notes = append(p.notes, fmt.Sprintf("%s (set with --%s)", note, strings.Join(names, ", --")))
	}
	p.entryBytes = p.opt.EntryBytes
	if p.entryBytes == nil && p.meta.EntryBytes > 0 {
		p.entryBytes = &p.meta.EntryBytes
	}
	if p.entryBytes != nil && *p.entryBytes < 1 {
		return fmt.Errorf("entry bytes %d, expected at least 1", *p.entryBytes)
	}
	if p.entryBytes == nil {
		p.notes = append(p.notes, "the trace does not state entry_bytes: rows have no bytes (set with --entry-bytes)")
	}
	return nil
}

// pinsOf returns the pins of the options, or of the trace, or the defaults of S2.
func pinsOf(m *trace.Meta, o *Options) demand.Pins {
	sink, local, _ := m.Pins()
	p := demand.Pins{Sink: optional.Or(o.Sink, sink), Local: optional.Or(o.Local, local), BlockTokens: m.BlockTokens}
	if o.Shape.BlockTokens > 0 {
		p.BlockTokens = o.Shape.BlockTokens
	}
	return p
}

// UnstatedPins names the pins that neither the options nor the trace states. The note tells
// users which values are replayed instead. Both are empty if all are stated.
func UnstatedPins(m *trace.Meta, o *Options) (note string, names []string) {
	p := pinsOf(m, o)
	var used []string
	for _, pin := range []struct {
		name           string
		stated, option *int
		used           int
	}{{"sink", m.Sink, o.Sink, p.Sink}, {"local", m.Local, o.Local, p.Local}} {
		if pin.option == nil && pin.stated == nil {
			names, used = append(names, pin.name), append(used, strconv.Itoa(pin.used))
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the trace does not state %s: replay assumes %s", strings.Join(names, " and "), strings.Join(used, " and ")), names
}

// findColumns finds the columns of the trace that policies may need.
func (p *plan) findColumns() error {
	p.columns = columns{ranks: p.ranks, scores: p.file.HasScores(), attention: p.attention().Weights, promptMass: p.file.HasPromptMass(), windows: p.warmup.Replayed() > 0}
	return nil
}

// columns are the columns of a trace, or of a stream in memory, that policies may need.
type columns struct {
	ranks, scores         bool
	attention, promptMass bool
	windows               bool // the run replays prompt windows
}

// columnsOf returns the columns of a stream in memory.
func columnsOf(s *trace.Stream, m *trace.Meta, o *StreamOptions) columns {
	return columns{ranks: m.Order == trace.OrderRank, scores: len(s.Scores) > 0, attention: streamAttention(s, m, o).Weights,
		promptMass: len(s.PromptMass) > 0 || s.EmptyPromptMass}
}

// streamAttention returns what a stream in memory records about the attention of listed blocks.
func streamAttention(s *trace.Stream, m *trace.Meta, o *StreamOptions) demand.Attention {
	return demand.AttentionOf(m, len(s.AttentionMass) > 0, len(s.Scores) > 0, len(s.CoveredMass) > 0 && o.Candidates == m.Candidates)
}

// missing names a column that a policy needs and the trace lacks. It returns "" if the trace has all.
func (c columns) missing(needs policies.Needs) string {
	switch {
	case needs&policies.NeedCandidates != 0 && !c.ranks:
		return "it needs ranks, the trace has order=index"
	case needs&policies.NeedScores != 0 && !c.scores:
		return "it needs scores, the trace has none"
	}
	return ""
}

// missingLossy does the same as missing for the columns that only lossy policies need.
func (c columns) missingLossy(needs policies.Needs) string {
	switch {
	case needs&policies.NeedAttention != 0 && !c.attention:
		return "it needs attention masses, the trace has neither attention_mass nor softmax scores (capture with --attention-mass always, or use scores=ranks as in h2o:scores=ranks)"
	case needs&policies.NeedPromptMass != 0 && !c.promptMass:
		return "it needs prompt_mass, the trace has none (capture without --no-prompt-mass)"
	case needs&policies.NeedWindows != 0 && !c.promptMass && !c.windows:
		return "it needs prompt windows or prompt_mass, the trace has neither or the warm-up is cold (capture with --windows 32)"
	}
	return ""
}
