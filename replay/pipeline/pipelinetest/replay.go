// Package pipelinetest makes profiles, and finds machines and models, for tests of packages that price them.
package pipelinetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// Replay replays the bundled trace with policies at 2x and returns the path of its profile.
func Replay(t testing.TB, names []string, tiers ...string) string {
	t.Helper()
	f, err := trace.Open(bundled(t))
	fatal.If(t, err)
	defer f.Close()
	o := replay.Options{Workers: 1, Checkpoint: replay.DefaultCheckpoint}
	for _, name := range names {
		spec, err := all.Table().Parse(name)
		fatal.If(t, err)
		o.Policies = append(o.Policies, spec)
	}
	if o.Capacities, err = replay.ParseCapacities([]string{"2x"}); err != nil {
		t.Fatal(err)
	}
	if o.Warmup, err = replay.ParseWarmup("auto"); err != nil {
		t.Fatal(err)
	}
	for _, text := range tiers {
		tier, err := replay.ParseTier(all.Table(), text)
		fatal.If(t, err)
		o.Tiers = append(o.Tiers, tier)
	}
	job, err := replay.Plan(f, o)
	fatal.If(t, err)
	path := filepath.Join(t.TempDir(), "p.parquet")
	p, err := replay.CreateProfile(path, false)
	fatal.If(t, err)
	fatal.If(t, job.Record(p))
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, p.Close())
	return path
}

// bundled returns the path of the bundled trace, from any folder of the repository.
func bundled(t testing.TB) string {
	t.Helper()
	for folder := "."; ; folder = filepath.Join(folder, "..") {
		path := filepath.Join(folder, "datasets", "bundled", "smollm2_multi_news_8k.parquet")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if top, err := filepath.Abs(folder); err != nil || top == filepath.Dir(top) {
			t.Fatalf("%s is in no folder above: run the test in the repository", path)
		}
	}
}
