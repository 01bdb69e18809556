package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// The example of steps in metrics/PLOTS.md is drawn from the bundled trace. A cold cache misses the
// whole demand of step 0, so the line begins at the top of the axis.
func TestPlotSteps(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", newsTrace, "--policy", "lru,echo,opt", "--capacity", "2x", "--warmup", "cold", "--profile", "--out", out)
	drawn := filepath.Join(out, "steps.svg")
	must(t, "plot", "steps", out, "-o", drawn, "--white")
	rewritten(t, "../../metrics/plots/steps.svg", content(t, drawn), "PlotSteps")
	for _, format := range []string{"pdf", "png"} {
		if code, _, stderr := run("plot", "steps", out, "--policies", "opt,LRU", "--capacity", "2x", "-o", filepath.Join(out, "few."+format)); code != 0 {
			t.Error(stderr)
		}
	}
	wantRefused(t, 2, "no cell of fifo; known: ", "plot", "steps", out, "--policy", "fifo", "-o", drawn)
	wantRefused(t, 2, "no cell with capacity 9x", "plot", "steps", out, "--capacity", "9x", "-o", drawn)
	wantRefused(t, 1, "not of layers: replay with --per stream", "plot", "heatmap", out, "-o", drawn)
}

// A map needs one policy and one capacity.
func TestPlotHeatmap(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", newsTrace, "--policy", "lru,fifo", "--capacity", "2x", "--per", "stream", "--out", out)
	drawn := filepath.Join(out, "heads.svg")
	must(t, "plot", "heatmap", out, "--policy", "lru", "-o", drawn)
	if text := content(t, drawn); !strings.Contains(text, ">layer<") || !strings.Contains(text, "<title>hit-rate of lru @ 2x") {
		t.Errorf("no map of layers:\n%.600s", text)
	}
	wantRefused(t, 2, "a map shows one of 2 cells: choose with --policy and --capacity, as in fifo @ 2x", "plot", "heatmap", out, "-o", drawn)
	wantRefused(t, 2, "a map shows one policy", "plot", "heatmap", out, "--policies", "lru,fifo", "-o", drawn)
}

// Systems of several budgets make one front. Texts that kvreplay systems did not write are errors.
func TestPlotPareto(t *testing.T) {
	dir := t.TempDir()
	var made []string
	for _, memory := range []string{"20GB", "24GB"} {
		text := must(t, "systems", "../../datasets/corpus/selectors_qa_text.exact.parquet", "--systems", "ess,dense-gpu,snapkv", "--hardware", "rtx4090", "--model", "llama-3-8b",
			"--context", "32768", "--batch", "2", "--gpu-memory", memory, "--format", "json")
		path := filepath.Join(dir, memory+".json")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		made = append(made, path)
	}
	drawn := filepath.Join(dir, "pareto.svg")
	must(t, "plot", "pareto", made[0], made[1], "-o", drawn)
	for _, want := range []string{">ess<", ">sparse<", ">GPU memory (GB)<"} {
		if !strings.Contains(content(t, drawn), want) {
			t.Errorf("the figure lacks %s", want)
		}
	}
	for want, text := range map[string]string{
		"expected an output of kvreplay systems --format json": "no JSON",
		"has no name or kind": `[{"system": "a"}]`, "no system of the files fits": "[]",
		"expected more than 0": `[{"system": "a", "kind": "dense", "tpot_s": -1, "memory": {"gpu_bytes": 1}}]`,
	} {
		path := filepath.Join(dir, "bad.json")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		wantRefused(t, 1, want, "plot", "pareto", path, "-o", drawn)
	}
	wantRefused(t, 1, dir+" is a folder, expected a file", "plot", "pareto", dir, "-o", drawn)
}

// A curve of one policy needs no rank.
func TestPlotCurveAlone(t *testing.T) {
	out := t.TempDir()
	kvreplay(t, 0, "replay", smallTrace(t, small), "--policy", "fifo,opt", "--capacity", "1x,2x", "--out", out)
	drawn := filepath.Join(out, "curve.svg")
	kvreplay(t, 0, "plot", "curve", out, "-o", drawn)
	for _, want := range []string{">fifo<", ">opt<"} {
		if !strings.Contains(content(t, drawn), want) {
			t.Errorf("the figure lacks %s", want)
		}
	}
	wantRefused(t, 1, "the rows rank no policy", "plot", "ranking", out, "-o", drawn)
	unbound := t.TempDir() // OPT does not prefetch, so it bounds no policy that does
	kvreplay(t, 0, "replay", smallTrace(t, small), "--policy", "fifo,opt", "--prefetch", "candidates:4", "--capacity", "1x,2x", "--out", unbound)
	wantRefused(t, 1, "the rows rank no policy", "plot", "curve", unbound, "-o", filepath.Join(unbound, "c.svg"))
}

// Outputs and sizes are checked before rows are read.
func TestPlotRefuses(t *testing.T) {
	rows := "../../metrics/testdata/rows.jsonl"
	for want, args := range map[string][]string{
		"output missing: name it with -o":   {"ranking", rows},
		"ends in .pdf, .svg, .png":          {"ranking", rows, "-o", "a.gif"},
		"--width 5: expected 30 to 1000 mm": {"curve", rows, "-o", "a.svg", "--width", "5"},
		"expected x-opt, miss-ratio":        {"curve", rows, "-o", "a.svg", "--y", "misses"},
		`unknown command "rankin", did you`: {"rankin", rows},
		"pareto: file of systems missing":   {"pareto", "-o", "a.svg"},
	} {
		code, _, stderr := run(append([]string{"plot"}, args...)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("plot %v: exit code %d, %q, expected %q", args, code, stderr, want)
		}
	}
	wantRefused(t, 1, `unknown policy in the rows "lrx", did you mean lru?`, "plot", "ranking", rows, "--policies", "lrx", "-o", filepath.Join(t.TempDir(), "a.svg"))
}

// wantRefused expects an exit code and a text on stderr.
func wantRefused(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	got, _, stderr := run(args...)
	if got != code || !strings.Contains(stderr, want) {
		t.Errorf("kvreplay %v: exit code %d, %q, expected %d with %q", args, got, stderr, code, want)
	}
}

// The page of a folder with a profile shows the misses of each step. Without a profile, and with one
// that is damaged, it says how to get them.
func TestPageShowsSteps(t *testing.T) {
	out := t.TempDir()
	must(t, "replay", newsTrace, "--policy", "lru,fifo,opt", "--capacity", "2x", "--profile", "--out", out)
	const title, hint = "Misses of each decode step: smollm2_multi_news_8k.parquet at 2x", "Replay with <code>--profile</code>"
	code, page, stderr := run("leaderboard", out, "--format", "html")
	if code != 0 || !strings.Contains(page, title) || strings.Contains(page, hint) || !strings.Contains(page, ">decode step<") {
		t.Errorf("exit code %d, %s: the page has no figure of steps", code, stderr)
	}
	profiles, err := filepath.Glob(filepath.Join(out, "*.profile-*.parquet"))
	if err != nil || len(profiles) != 1 {
		t.Fatal(profiles, err)
	}
	fatal.If(t, os.WriteFile(profiles[0], []byte("PAR1"), 0o600))
	code, page, stderr = run("leaderboard", out, "--format", "html")
	if code != 0 || strings.Contains(page, title) || !strings.Contains(page, hint) || !strings.Contains(stderr, "the page leaves out misses by step: profile ") {
		t.Errorf("exit code %d, %s: a damaged profile", code, stderr)
	}
}

// Heat maps of a plot and of a page count each part once, also if the files have it at several levels of
// detail.
func TestHeatMapsCountPartsOnce(t *testing.T) {
	replayed, dir := map[string]string{}, t.TempDir()
	for per, flags := range map[string][]string{"layer": {"--per", "layer"}, "stream": {"--per", "stream"}, "cold": {"--per", "stream", "--warmup", "cold"}} {
		replayed[per] = filepath.Join(dir, per+".jsonl")
		rows := must(t, append([]string{"replay", newsTrace, "--policy", "lru,opt", "--capacity", "2x", "--format", "jsonl"}, flags...)...)
		fatal.If(t, os.WriteFile(replayed[per], []byte(rows), 0o600))
	}
	layer, stream, cold := replayed["layer"], replayed["stream"], replayed["cold"]
	heat := regexp.MustCompile(`"heat":\[\{.*?\}\]`)
	for _, y := range []string{"misses", "hit-rate"} {
		var figure, page string
		for _, files := range [][]string{{stream}, {layer}, {stream, stream}, {layer, stream, layer}, {stream, layer}} {
			drawn, out := filepath.Join(t.TempDir(), "heads.svg"), t.TempDir()
			for _, args := range [][]string{{"plot", "heatmap", "--policy", "lru", "--value", y, "-o", drawn}, {"leaderboard", "--out", out}} {
				if code, _, stderr := run(append(args, files...)...); code != 0 {
					t.Fatal(args, files, stderr)
				}
			}
			maps := heat.FindString(content(t, filepath.Join(out, "leaderboard.html")))
			if figure == "" {
				figure, page = content(t, drawn), maps
			}
			if page == "" || page != maps {
				t.Errorf("leaderboard %s: maps %s, want %s", files, maps, page)
			}
			if content(t, drawn) != figure {
				t.Errorf("plot heatmap --value %s %s: another figure", y, files)
			}
		}
	}
	changed := filepath.Join(dir, "changed.jsonl")
	one := strings.NewReplacer(`"hits":23723,"misses":757`, `"hits":23724,"misses":756`, `_entries":757`, `_entries":756`, `:581376`, `:580608`)
	fatal.If(t, os.WriteFile(changed, []byte(one.Replace(content(t, layer))), 0o600))
	for _, c := range []struct {
		files []string
		want  string
	}{
		{[]string{stream, cold}, "add --where warmup=cold or --where warmup!=cold"},
		{[]string{stream, changed}, "differ in misses or demand"}, {[]string{layer, changed}, "with different counts: hits 23723 and 23724"},
	} {
		code, _, stderr := run(append([]string{"plot", "heatmap", "--policy", "lru", "-o", filepath.Join(t.TempDir(), "heads.svg")}, c.files...)...)
		if code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %q, want %q", c.files, code, stderr, c.want)
		}
	}
}

// A heat map does not pool rows that differ in a setting.
func TestHeatmapOfTwoSettings(t *testing.T) {
	var folders []string
	for _, k := range []string{"128", "256"} {
		out := t.TempDir()
		must(t, "replay", newsTrace, "--policy", "lru", "--capacity", "2x", "--per", "layer", "--topk", k, "--out", out)
		folders = append(folders, out)
	}
	drawn := filepath.Join(t.TempDir(), "heads.svg")
	wantRefused(t, 1, "topk", append([]string{"plot", "heatmap", "-o", drawn}, folders...)...)
	must(t, append([]string{"plot", "heatmap", "-o", drawn, "--where", "topk=128"}, folders...)...)
}
