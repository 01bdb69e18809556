package synthetic

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// A trace that is written to while it is measured gives no dials.
func TestFitTraceChangesMeanwhile(t *testing.T) {
	path := tracetest.Copy(t, "../bundled/smollm2_niah_1k_sglang.parquet", "t.parquet")
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	n := int64(len(f.Streams()))
	ctx := &tracetest.Meanwhile{Context: t.Context(), N: n, Do: func() { tracetest.Overwrite(t, path) }} // before the last stream is read
	if _, err := Fit(ctx, f, FitOptions{}); err == nil || !strings.Contains(err.Error(), "was changed while kvreplay read it") {
		t.Errorf("%v", err)
	}
	if ctx.Asked() < n {
		t.Errorf("asked %d times of %d", ctx.Asked(), n)
	}
}
