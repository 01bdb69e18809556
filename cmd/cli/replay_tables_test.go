package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// missesByPolicy replays a trace and returns the misses of its rows by policy.
func missesByPolicy(t *testing.T, args ...string) map[string]int64 {
	t.Helper()
	rows, err := result.ReadRows(profileOf(t, args...))
	fatal.If(t, err)
	misses := map[string]int64{}
	for _, r := range rows {
		misses[r.Policy] += r.Misses
	}
	return misses
}

// documentHas reports lines that a document of the engine lacks.
func documentHas(t *testing.T, name string, lines ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../replay", name))
	fatal.If(t, err)
	for _, line := range lines {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("%s should say\n%s", name, line)
		}
	}
}

// The misses with plans in ALLOCATION.md are those of its commands.
func TestReallocationTable(t *testing.T) {
	if testing.Short() {
		t.Skip("replays bundled traces under many plans")
	}
	lines := []string{"| uniform |", "| every 64 |", "| every 32 |", "| every 16 |", "| every 4 |", "| static, on the trace itself |", "| static, then every 32 |"}
	for _, trace := range []string{"bundled/smollm2_multi_news_8k", "bundled/smollm2_niah_multikey_3_4k", "corpus/deep_vt"} {
		path, dir := "../../datasets/"+trace+".parquet", t.TempDir()
		uniform, static := filepath.Join(dir, "uniform.yaml"), filepath.Join(dir, "static.yaml")
		curves := profileOf(t, path, "--policy", "lru", "--capacity", "sweep")
		must(t, "allocate", curves, "--memory", "2x", "--method", "uniform", "-o", uniform)
		must(t, "allocate", curves, "--memory", "2x", "--method", "2d-greedy", "-o", static)
		for i, plan := range [][]string{{uniform}, {uniform, "--reallocate", "64"}, {uniform, "--reallocate", "32"}, {uniform, "--reallocate", "16"}, {uniform, "--reallocate", "4"},
			{static}, {static, "--reallocate", "32"}} {
			misses := missesByPolicy(t, append([]string{path, "--policy", "lru", "--policy", "opt", "--allocation"}, plan...)...)
			lines[i] += fmt.Sprintf(" %s | %s |", humanize.Comma(misses["lru"]), humanize.Comma(misses["opt"]))
		}
	}
	documentHas(t, "ALLOCATION.md", lines...)
}

// The misses of pools in POOLS.md are those of its command.
func TestPoolTable(t *testing.T) {
	if testing.Short() {
		t.Skip("replays bundled traces in pools")
	}
	var lines []string
	for _, c := range []struct{ trace, name, capacity string }{
		{"bundled/smollm2_multi_news_8k", "smollm2_multi_news_8k", "1.5x"}, {"bundled/smollm2_multi_news_8k", "", "4x"},
		{"corpus/deep_vt", "deep_vt", "1x"}, {"corpus/deep_vt", "", "2x"},
	} {
		name, capacity := c.name+" ", c.capacity+" "
		if c.name == "" {
			name = ""
		}
		for _, shared := range []string{"alone", "pool"} {
			args := []string{"../../datasets/" + c.trace + ".parquet", "--policy", "lru", "--policy", "lookahead", "--policy", "near-lrfu", "--policy", "opt", "--capacity", c.capacity}
			if shared == "pool" {
				args = append(args, "--pool", "request")
			}
			misses := missesByPolicy(t, args...)
			line := fmt.Sprintf("| %s| %s| %s |", name, capacity, shared)
			for _, policy := range []string{"lru", "lookahead", "near-lrfu:gamma=0.97,w=2,history=keep"} {
				line += fmt.Sprintf(" %s (%.2f) |", humanize.Comma(misses[policy]), float64(misses[policy])/float64(misses["opt"]))
			}
			lines = append(lines, line+fmt.Sprintf(" %s |", humanize.Comma(misses["opt"])))
			name, capacity = "", ""
		}
	}
	documentHas(t, "POOLS.md", lines...)
}
