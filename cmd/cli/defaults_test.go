package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/synthetic"
)

// The help of a flag says what holds without it, also where that is no number of the flag's own.
func TestHelpSaysDefaults(t *testing.T) {
	d := synthetic.Default()
	for command, flags := range map[string]map[string]string{
		"replay":         {"local": "(default: the trace's, or 1)", "topk": "(default: the trace's)", "pool": "(default: each has its own)", "seed": "(default 0)"},
		"derive":         {"topk": "(default: the source's)", "layers": "(default: all)"},
		"hardware price": {"runs": "(default: each block apart)", "extents": "(default: one a block)"},
		"datasets make synthetic": {"seed": fmt.Sprintf("(default %d)", d.Seed), "layers": fmt.Sprintf("(default %d)", d.Layers), "topk": fmt.Sprintf("(default %d)", d.TopK),
			"overlap": fmt.Sprintf("(default %g)", d.Overlap), "gap-median": fmt.Sprintf("(default %g)", d.GapMedian)},
	} {
		_, help, _ := run(append(strings.Fields(command), "--help")...)
		_, help, _ = strings.Cut(help, "\nFlags:\n") // examples name flags too
		for flag, want := range flags {
			_, line, _ := strings.Cut(help, "--"+flag+" ")
			if line, _, _ = strings.Cut(line, "\n"); !strings.HasSuffix(line, want) {
				t.Errorf("%s: --%s %s; expected it to end in %q", command, flag, line, want)
			}
		}
	}
}
