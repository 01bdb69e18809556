package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/s3test"
)

// startS3 starts an S3 server with the bucket traces. It holds the bundled traces of the repository at
// root.
func startS3(t *testing.T, root string) *s3test.Server {
	t.Helper()
	s := s3test.Start(t)
	found, err := filepath.Glob(filepath.Join(root, "datasets", "bundled", "*.parquet"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no bundled traces: %v", err)
	}
	objects := map[string][]byte{"notes.txt": []byte("no trace")}
	for _, path := range found {
		if objects[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	s.Bucket(t, "traces", objects)
	return s
}

const (
	s3Niah = "s3://traces/smollm2_niah_1k_sglang.parquet"
	s3News = "s3://traces/smollm2_multi_news_8k.parquet"
)

// folderText returns the names and contents of the row files in a folder.
func folderText(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	fatal.If(t, err)
	var b strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		b.WriteString(filepath.Base(path) + "\n" + string(text))
	}
	return b.String()
}

// Commands give the same bytes for a trace in an object store as for a file, also if the store refuses
// two of three requests.
func TestS3EqualsLocal(t *testing.T) {
	server := startS3(t, filepath.Join("..", ".."))
	var mu sync.Mutex
	requests := map[string]int{} // equal ones, because concurrent ones could be refused too often in turn
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		mu.Lock()
		requests[r.URL.String()+r.Header.Get("Range")]++
		n := requests[r.URL.String()+r.Header.Get("Range")]
		mu.Unlock()
		if n%3 != 0 {
			s3test.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return
		}
		next.ServeHTTP(w, r)
	})
	local, remote := t.TempDir(), t.TempDir()
	settings := []string{"--policy", "all", "--policy", "lossy", "--capacity", "1.5x,3x", "--per", "request", "--parallel", "2", "--out"}
	must(t, append(append([]string{"replay", niah, newsTrace}, settings...), local)...)
	must(t, append(append([]string{"replay", s3Niah, s3News}, settings...), remote)...)
	want := folderText(t, local)
	if got := folderText(t, remote); got != want || !strings.Contains(want, `"lru"`) {
		t.Errorf("rows of S3 differ from local ones: %d and %d bytes", len(got), len(want))
	}
	server.Use(t, server.Endpoint)
	staged, scratch := t.TempDir(), filepath.Join(t.TempDir(), "scratch")
	must(t, append(append([]string{"replay", s3Niah, s3News, "--stage", scratch}, settings...), staged)...)
	if got := folderText(t, staged); got != want {
		t.Errorf("rows of staged traces differ from local ones: %d and %d bytes", len(got), len(want))
	}
	if copies, err := os.ReadDir(scratch); err != nil || len(copies) != 2 {
		t.Errorf("--stage has %v, %v, expected 2 traces", copies, err)
	}
	for _, args := range [][]string{{"inspect", "--layers", "--format", "json"}, {"validate", "--format", "json"}, {"validate"}, {"replay", "--layers", "3", "--policy", "lru", "--format", "csv"}} {
		want := must(t, append(args, niah)...)
		if got := must(t, append(args, s3Niah)...); strings.ReplaceAll(got, s3Niah, niah) != want {
			t.Errorf("%v: got\n%s\nexpected\n%s", args, got, want)
		}
	}
	for _, traces := range []string{"s3://traces", "s3://traces/", s3Niah} {
		rows := remote
		if traces == s3Niah {
			rows = ownRows(t, "jsonl")
		}
		if out := must(t, "leaderboard", "verify", rows, "--traces", traces, "--sample", "3"); !strings.Contains(out, " 0 differ, 0 unverifiable") {
			t.Errorf("verify with %s:\n%s", traces, out)
		}
	}
}

// A store that fails or an object that changes ends a command with exit code 1, the cause and a remedy.
// No row is written.
func TestS3Failures(t *testing.T) {
	server := startS3(t, filepath.Join("..", ".."))
	key, err := os.ReadFile(niah)
	fatal.If(t, err)
	for _, c := range []struct {
		name string
		at   int64 // the GET request that fails, from 1
		fail func(w http.ResponseWriter, r *http.Request, next http.Handler)
		want string
	}{
		{"expired", 1, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			s3test.Refuse(w, http.StatusForbidden, "RequestExpired")
		}, "the credentials have expired (RequestExpired). Get new ones"},
		{"changed", 2, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			server.Put(t, "traces", filepath.Base(niah), append(key, "more"...))
			next.ServeHTTP(w, r)
		}, "was changed while kvreplay read it, expected the same ETag to the end. Run again when no program writes to it"},
		{"expired later", 2, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			s3test.Refuse(w, http.StatusForbidden, "RequestExpired")
		}, "the credentials have expired (RequestExpired). Get new ones"},
		{"denied", 1, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			s3test.Refuse(w, http.StatusForbidden, "AccessDenied")
		}, "access denied to the key kvreplay-test (AccessDenied). Check the credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server.Put(t, "traces", filepath.Base(niah), key)
			var asked atomic.Int64
			server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodGet && asked.Add(1) == c.at {
					c.fail(w, r, next)
					return
				}
				next.ServeHTTP(w, r)
			})
			out := t.TempDir()
			code, _, errs := run("replay", s3Niah, "--policy", "lru", "--capacity", "2x", "--out", out)
			last := errs[strings.LastIndex(strings.TrimSpace(errs), "\n")+1:] // after a note, if lists failed
			if code != 1 || strings.Count(last, s3Niah) != 1 || !strings.Contains(last, c.want) {
				t.Errorf("exit code %d: %s\nexpected %q", code, errs, c.want)
			}
			if rows := folderText(t, out); rows != "" {
				t.Errorf("rows were written:\n%s", rows)
			}
			code, stdout, _ := run("validate", "s3://traces/none.parquet")
			if code != 1 || strings.Count(stdout, "s3://traces/none.parquet: ") != 1 || !strings.Contains(stdout, "no such object") {
				t.Errorf("validate of a missing object: exit code %d: %s", code, stdout)
			}
		})
	}
}

// A replay of small traces asks for nothing that the answers to other requests state.
func TestS3Requests(t *testing.T) {
	server := startS3(t, filepath.Join("..", ".."))
	var heads, gets atomic.Int64
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		map[string]*atomic.Int64{http.MethodHead: &heads, http.MethodGet: &gets}[r.Method].Add(1)
		next.ServeHTTP(w, r)
	})
	must(t, "replay", s3Niah, s3News, "--policy", "lru", "--capacity", "2x", "--out", t.TempDir())
	if heads.Load() != 0 || gets.Load() > 2+5 {
		t.Errorf("%d HEAD and %d GET requests, expected none, and 2 and 5", heads.Load(), gets.Load())
	}
}

// A replay requests the first lists before the keys arrive.
func TestS3ListsBeforeKeys(t *testing.T) {
	server := s3test.Start(t)
	path := filepath.Join("..", "..", "datasets", "corpus", "deep_vt.parquet")
	server.Bucket(t, "traces", map[string][]byte{"deep_vt.parquet": []byte(content(t, path))})
	lists := make(chan struct{})
	var once sync.Once
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		var from, to int64
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
		switch {
		case to-from > 1<<20:
			once.Do(func() { close(lists) })
		case from == 0 && to > 0: // the keys
			select {
			case <-lists:
			case <-r.Context().Done():
			case <-time.After(time.Minute):
				t.Error("the keys were requested, but no lists")
			}
		}
		next.ServeHTTP(w, r)
	})
	local, remote := t.TempDir(), t.TempDir()
	must(t, "replay", path, "--policy", "lru", "--capacity", "2x", "--out", local)
	must(t, "replay", "s3://traces/deep_vt.parquet", "--policy", "lru", "--capacity", "2x", "--out", remote)
	if folderText(t, local) != folderText(t, remote) {
		t.Error("rows differ from those of a file")
	}
}

// validate reads each byte of an object once, and keeps no copy.
func TestS3ValidateOnce(t *testing.T) {
	server := startS3(t, filepath.Join("..", ".."))
	info, err := os.Stat(newsTrace)
	fatal.If(t, err)
	var read atomic.Int64
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(counted{w, &read}, r)
	})
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows
	must(t, "validate", s3News)
	if read.Load() != info.Size() {
		t.Errorf("read %d bytes of %d", read.Load(), info.Size())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("validate leaves %v, %v", left, err)
	}
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(cutShort{w}, r)
	})
	if code, out, errs := run("validate", s3News); code != 1 || !strings.Contains(out, "Check the connection") || strings.Contains(out, "TMPDIR") || !strings.Contains(errs, "not readable: 1 of 1 file") {
		t.Errorf("with answers that end early: exit code %d: %s%s", code, out, errs)
	}
	for _, name := range []string{"TMPDIR", "TMP"} {
		t.Setenv(name, filepath.Join(dir, "none"))
	}
	if code, out, _ := run("validate", s3News); code != 1 || !strings.Contains(out, "copy "+s3News) || !strings.Contains(out, "Set TMPDIR to a folder with room") {
		t.Errorf("without a folder for the copy: exit code %d: %s", code, out)
	}
}

// cutShort ends the answer after its first 100 bytes.
type cutShort struct{ http.ResponseWriter }

func (c cutShort) Write(p []byte) (int, error) {
	if len(p) > 100 {
		_, _ = c.ResponseWriter.Write(p[:100])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// counted counts the bytes of answers.
type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

// Write counts and writes.
func (c counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// Unwrap lets the proxy flush.
func (c counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// A batch of traces in an object store, with packs there, gives the rows of one machine. The store
// refuses one of four requests. A shard whose packs cannot be read fails, and loses no counts.
func TestS3Batch(t *testing.T) {
	server := startS3(t, filepath.Join("..", ".."))
	server.Bucket(t, "packs", nil)
	settings := []string{"--policy", "lru,opt,fifo", "--capacity", "1.5x,3x", "--per", "request"}
	want := t.TempDir()
	must(t, append([]string{"replay", niah, newsTrace, "--out", want}, settings...)...)
	var requests atomic.Int64
	refuse := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if requests.Add(1)%4 == 0 {
			s3test.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return
		}
		next.ServeHTTP(w, r)
	}
	const packs = "s3://packs/grid"
	path, shards := planBatch(t, everyChunk, append([]string{s3Niah, s3News, "--packs", packs}, settings...)...)
	if shards < 2 {
		t.Fatalf("%d shards, expected several", shards)
	}
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/packs/") {
			s3test.Refuse(w, http.StatusForbidden, "AccessDenied")
			return
		}
		next.ServeHTTP(w, r)
	})
	says(t, 1, "the counts of earlier attempts cannot be read", "batch", "run", path, "--shard", "0", "--packs", packs)
	server.Proxy(t, refuse)
	for shard := range shards {
		must(t, "batch", "run", path, "--shard", strconv.Itoa(shard), "--packs", packs)
	}
	says(t, 0, "was finished before: s3://packs/grid/shard-", "batch", "run", path, "--shard", "1", "--packs", packs)
	must(t, "batch", "status", path, "--packs", packs)
	got := filepath.Join(t.TempDir(), "merged")
	must(t, "batch", "merge", path, "--packs", packs, "--out", got)
	if a, b := folderText(t, want), folderText(t, got); a != b || a == "" {
		t.Errorf("the merged rows have %d bytes, expected the %d of one machine", len(b), len(a))
	}
}
