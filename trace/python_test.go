package trace_test

import (
	"bytes"
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/trace/tracetest"
)

const interopDir = "../scripts/interop"

// python runs a script in the interop environment and returns its standard output.
func python(t *testing.T, args ...string) []byte {
	t.Helper()
	interpreter := tracetest.Python(t, tracetest.Interop(".."))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python %v: %v\n%s", args, err, stderr.Bytes())
	}
	return out
}
