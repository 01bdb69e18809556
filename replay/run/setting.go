package run

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// EngineVersion names the replay semantics (S1–S13). It is part of every result row
// and changes whenever a count can.
const EngineVersion = "4"

// Read sets the mechanisms that s states: warm-up, pool, prefetching, outliers, tiers, reallocation
// and layers. It leaves out clusters, requests and the plan, which need files, and the options
// whose defaults depend on the trace.
func (o *Options) Read(s *result.Setting, table policies.Table) error {
	var errs [7]error
	o.Warmup, errs[0] = setting.ParseWarmup(s.Warmup)
	o.Pool, errs[1] = setting.ParsePool(s.Pool)
	o.Reallocation, errs[2] = allocate.ParseReallocation(s.Reallocation)
	o.Prefetch, errs[3] = setting.ParsePrefetch(s.Prefetch)
	o.Outliers, errs[4] = setting.ParseOutliers(s.Outliers)
	o.Tiers, o.Inclusive, errs[5] = setting.ParseTiers(table, s.Tiers)
	for text := range strings.SplitSeq(s.Layers, ",") {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil && s.Layers != "" {
			errs[6] = fmt.Errorf("layers %q: expected numbers, as in 0,5", s.Layers)
		} else if err == nil {
			o.Layers = append(o.Layers, int32(n))
		}
	}
	return cmp.Or(errs[:]...)
}

// rowSetting returns the setting that rows state, with every default filled in.
func (p *plan) rowSetting() result.Setting {
	o, m := p.opt, p.meta
	layers := slice.Map(o.Layers, func(l int32) string { return strconv.Itoa(int(l)) })
	s := result.Setting{
		Trace: filepath.Base(p.file.Path()), TraceDigest: p.digest, Model: m.Model, Selector: m.Selector,
		TopK: p.topk, Candidates: p.m, Warmup: p.warmup.String(), Sink: p.pins.Sink, Local: p.pins.Local,
		BlockTokens: p.pins.BlockTokens, EntryBytes: p.entryBytes, StepTokens: p.layout.Positions, SharedHeads: p.layout.Heads,
		Pool: string(o.Pool), Prefetch: o.Prefetch.String(), Outliers: o.Outliers.String(), Clusters: o.Clusters.String(),
		Tiers: setting.TiersText(o.Tiers, o.Inclusive), Layers: strings.Join(layers, ","), Requests: strings.Join(o.Requests, ","),
		Reallocation: o.Reallocation.String(), Engine: EngineVersion, Seed: o.Seed,
	}
	if o.Allocation != nil {
		s.Allocation = o.Allocation.Digest()
	}
	if recall, err := strconv.ParseFloat(m.Notes[noteRecall], 64); err == nil && recall >= 0 && recall <= 1 && s.Selector != "" && s.Selector != "exact" {
		s.SelectorRecall = &recall
	}
	return s
}

// noteRecall is the key of the metadata note with a selector's recall of the exact top K. Captures
// write it.
const noteRecall = "exact.recall"
