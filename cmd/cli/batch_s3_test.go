package cli_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kvreplay/kvreplay/internal/s3test"
)

// A batch whose traces, batch file and packs are objects has the bytes of one machine, also if the
// store refuses some requests.
func TestBatchOnS3(t *testing.T) {
	server := s3test.Start(t)
	server.Bucket(t, "traces", map[string][]byte{"a/deep_vt.parquet": []byte(content(t, deepTrace)), "b/news.parquet": []byte(content(t, newsTrace))})
	server.Bucket(t, "work", nil)
	var requests atomic.Int64
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if requests.Add(1)%3 == 0 {
			s3test.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return
		}
		next.ServeHTTP(w, r)
	})
	dir := t.TempDir()
	args := []string{"s3://traces/a/deep_vt.parquet", "s3://traces/b/news.parquet", "--policy", "lru,opt", "--capacity", "2x", "--per", "request"}
	must(t, append([]string{"replay", "--out", filepath.Join(dir, "one")}, args...)...)
	const path = "s3://work/run/grid.batch"
	plan := must(t, append([]string{"batch", "plan", "-o", path, "--rate", "3ns", "--hours", everyChunk}, args...)...)
	if !strings.Contains(plan, "batch run s3://work/run/grid.batch") {
		t.Errorf("plan prints\n%s", plan)
	}
	refused, stderr := kvreplay(t, 1, "batch", "status", path)
	if !strings.Contains(stderr, "4 of 4 shards missing: --array=0-3") {
		t.Errorf("status: %s%s", refused, stderr)
	}
	fails(t, 1, "nothing is merged", "batch", "merge", path, "--out", filepath.Join(dir, "many"))
	for _, shard := range []int{2, 0, 3, 1, 2} {
		must(t, "batch", "run", path, "--shard", fmt.Sprint(shard))
	}
	must(t, "batch", "status", path)
	must(t, "batch", "merge", path, "--out", filepath.Join(dir, "many"))
	sameTree(t, filepath.Join(dir, "one"), filepath.Join(dir, "many"))

	server.Put(t, "traces", "b/news.parquet", []byte(content(t, bundledNiah)))
	refusals := 0
	for shard := range 4 {
		if code, _, stderr := run("batch", "run", path, "--shard", fmt.Sprint(shard), "--packs", "s3://work/other/packs"); code == 2 && strings.Contains(stderr, "the batch file pins sha256:") {
			refusals++
		} else if code != 0 {
			t.Errorf("shard %d: exit %d: %s", shard, code, stderr)
		}
	}
	if refusals != 1 {
		t.Errorf("%d shards refuse another trace, expected 1", refusals)
	}
	if manifest := must(t, "batch", "plan", path, "--kubernetes"); strings.Contains(manifest, "volume") || !strings.Contains(manifest, "secretRef: {name: kvreplay-grid, optional: true}") {
		t.Errorf("the manifest is\n%s", manifest)
	}
}
