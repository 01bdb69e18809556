package verify

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

func ptr[T any](x T) *T { return &x }

// TestAlteredRowsDiffer checks that every change of a row is found and named. Unchanged rows next
// to altered ones hold.
func TestAlteredRowsDiffer(t *testing.T) {
	rows := replayed(t, newsPath, []string{"lru", "window:1"}, []string{"1.5x"}, func(o *replay.Options) {
		o.Per, o.Warmup = replay.PerRequest, replay.Warmup{Kind: replay.WarmupCold}
	})
	cases := map[string]struct {
		change func(*result.Row) // changes the row of lru at 1.5x
		want   string            // expected text in the details
	}{
		"count":         {func(r *result.Row) { r.Misses--; r.Hits++ }, "differs: misses"},
		"evictions":     {func(r *result.Row) { r.Evictions++ }, "differs: evictions"},
		"peak":          {func(r *result.Row) { r.ResidentPeak++ }, "differs: resident_peak"},
		"mean":          {func(r *result.Row) { r.ResidentMean *= 0.999 }, "differs: resident_mean"},
		"bytes":         {func(r *result.Row) { r.HostToDeviceBytes = ptr(*r.HostToDeviceBytes / 2) }, "differs: host_to_device_bytes"},
		"no bytes":      {func(r *result.Row) { r.EntryBytes, r.HostToDeviceBytes, r.DeviceToHostBytes = nil, nil, nil }, "differs: entry_bytes null, replayed 768"},
		"capacity":      {func(r *result.Row) { r.Capacity = ptr("2x") }, "differs: misses"},
		"entries":       {func(r *result.Row) { r.CapacityEntries = ptr(int64(512)) }, "differs: capacity_entries 512, replayed 384"},
		"swapped":       {func(r *result.Row) { r.Policy = "fifo" }, "differs: misses"},
		"no capacity":   {func(r *result.Row) { r.Capacity = nil }, "a capacity if the policy needs one"},
		"a capacity":    {func(r *result.Row) { r.Policy, r.Options = "window:1", "1" }, "differs: capacity 1.5x, replayed null"},
		"form":          {func(r *result.Row) { r.Capacity = ptr("lots") }, `capacity "lots"`},
		"K":             {func(r *result.Row) { r.TopK = 128 }, "differs: demand"},
		"K above M":     {func(r *result.Row) { r.TopK = 999 }, "K = 999"},
		"pins":          {func(r *result.Row) { r.Sink = 64 }, "differs: demand"},
		"warm-up":       {func(r *result.Row) { r.Warmup = "lru:32" }, "differs: misses"},
		"windows":       {func(r *result.Row) { r.Warmup = "lru:99" }, "99 prompt windows"},
		"block":         {func(r *result.Row) { r.BlockTokens = 2 }, "demand_entries"},
		"trait":         {func(r *result.Row) { r.Bypasses = true }, "differs: bypasses true, replayed false"},
		"no warning":    {func(r *result.Row) { r.Warnings = nil }, "differs: warnings []"},
		"request":       {func(r *result.Row) { r.RequestID = ptr("x") }, "no row of this part"},
		"layer":         {func(r *result.Row) { r.LayerID = ptr(int32(5)) }, "differs: streams 6, replayed 1"},
		"head":          {func(r *result.Row) { r.RequestID, r.Head = nil, ptr(int32(1)) }, "a single head"},
		"layers":        {func(r *result.Row) { r.Layers = "0" }, "differs: streams 6, replayed 1"},
		"layer unknown": {func(r *result.Row) { r.Layers = "99" }, "layer 99"},
		"layer words":   {func(r *result.Row) { r.Layers = "zero" }, `layers "zero"`},
		"requests":      {func(r *result.Row) { r.Requests = "x,y" }, `requests "x,y": expected request ids`},
	}
	names := slices.Sorted(maps.Keys(cases))
	altered := slices.Clone(rows)
	for _, name := range names {
		row := rows[0]
		cases[name].change(&row)
		altered = append(altered, row)
	}
	r := verified(t, altered, newsPath)
	if r.Holding != len(rows) || r.Differing != len(names) {
		t.Errorf("%s; %d rows are altered", r.Summary(), len(names))
	}
	for i, name := range names {
		o := &r.Outcomes[len(rows)+i]
		if want := cases[name].want; o.Verdict != Differs || !strings.Contains(o.details(), want) {
			t.Errorf("%s: %s; want it to differ with %q, got:\n%s", name, o.Verdict, want, o.details())
		}
	}
}

func TestUnverifiable(t *testing.T) {
	rows := replayed(t, niahPath, []string{"lru"}, []string{"1x"}, nil)
	other := tracetest.Copy(t, coldPath, filepath.Base(niahPath))
	for what, c := range map[string]struct {
		change func(*result.Row)
		trace  string
		want   string
	}{
		"engine":  {func(r *result.Row) { r.Engine = "0" }, niahPath, "engine version 0 wrote the row, this program has version " + replay.EngineVersion},
		"policy":  {func(r *result.Row) { r.Policy = "lrv" }, niahPath, `unknown policy "lrv", did you mean lru`},
		"peak":    {func(r *result.Row) { r.Capacity = ptr("peak:windos:2") }, niahPath, `unknown policy "windos"`},
		"no peak": {func(r *result.Row) { r.Capacity = ptr("peak:fifo") }, niahPath, "peak:fifo"},
		"missing": {func(*result.Row) {}, coldPath, "no trace of --traces has the digest sha256:a4af905d"},
		"another": {func(*result.Row) {}, other, "another trace: " + other + " has digest sha256:8369e3dc"},
		"unnamed": {func(r *result.Row) { r.TraceDigest = "" }, niahPath, "has no trace_digest"},
	} {
		altered := slices.Clone(rows)
		c.change(&altered[0])
		if r := verified(t, altered, c.trace); r.Unverifiable != 1 || !strings.Contains(r.Outcomes[0].Reason, c.want) {
			t.Errorf("%s: %s, reason %q; want %q", what, r.Summary(), r.Outcomes[0].Reason, c.want)
		}
	}
}
