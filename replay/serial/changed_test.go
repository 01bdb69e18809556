package serial

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// If a trace changes while its accesses are read, the replay returns neither rows nor accesses
// under its digest.
func TestTraceChangesMeanwhile(t *testing.T) {
	const original = "../../datasets/bundled/smollm2_niah_1k_sglang.parquet"
	capacity, err := replay.ParseCapacity("2x")
	fatal.If(t, err)
	o := Options{Policies: specs(t, "lru"), Capacities: []replay.Capacity{capacity}}
	for name, read := range map[string]func(context.Context, *trace.File) error{
		"run":     func(ctx context.Context, f *trace.File) error { _, _, err := Run(ctx, f, o); return err },
		"flatten": func(ctx context.Context, f *trace.File) error { return Flatten(ctx, io.Discard, f, o) },
	} {
		run := func(path string, ctx *tracetest.Meanwhile) error {
			ctx.Context = t.Context()
			f, err := trace.Open(path)
			fatal.If(t, err)
			defer f.Close()
			return read(ctx, f)
		}
		whole := new(tracetest.Meanwhile)
		fatal.If(t, run(original, whole))
		path := tracetest.Copy(t, original, "t.parquet")
		late := &tracetest.Meanwhile{N: whole.Asked(), Do: func() { tracetest.Overwrite(t, path) }} // just before the last stream is read
		if err := run(path, late); err == nil || !strings.Contains(err.Error(), "was changed while kvreplay read it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
