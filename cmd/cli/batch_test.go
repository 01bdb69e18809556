package cli_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

const (
	deepTrace     = "../../datasets/corpus/deep_vt.parquet"
	clusterTrace  = "../../datasets/corpus/selectors_qa_text.retroinfer.parquet"
	clusterTrace2 = "../../datasets/corpus/systems_niah_multikey_3.retroinfer.parquet"
)

// planBatch plans a batch with small shards and returns its file and the number of shards.
func planBatch(t *testing.T, hours string, args ...string) (path string, shards int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "b.batch")
	must(t, append([]string{"batch", "plan", "-o", path, "--rate", "3ns", "--hours", hours}, args...)...)
	return path, strings.Count(content(t, path), `{"shard":`)
}

// everyChunk makes each chunk a shard.
const everyChunk = "1e-9"

// sameTree compares all files below two folders.
func sameTree(t *testing.T, want, got string) {
	t.Helper()
	files := func(root string) map[string]string {
		all := map[string]string{}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name, _ := filepath.Rel(root, path)
				all[name] = content(t, path)
			}
			return err
		})
		fatal.If(t, err)
		return all
	}
	wanted, have := files(want), files(got)
	if len(wanted) < 3 || len(have) != len(wanted) {
		t.Errorf("%d files, expected %d", len(have), len(wanted))
	}
	for name, text := range wanted {
		if have[name] != text {
			t.Errorf("%s differs:\n%s\nexpected\n%s", name, have[name], text)
		}
	}
}

// Shards in random order, some of them twice, have the files of one machine. Each combination of
// mechanisms is cut into chunks and, but for the first, into fewer shards.
func TestBatchGivesTheBytesOfOneMachine(t *testing.T) {
	dir := t.TempDir()
	must(t, "replay", deepTrace, "--policy", "lru", "--capacity", "sweep:8", "--per", "stream", "--out", filepath.Join(dir, "curves"))
	plan := filepath.Join(dir, "plan.yaml")
	must(t, "allocate", filepath.Join(dir, "curves"), "--memory", "2x", "--method", "2d-greedy", "-o", plan)
	exact := "--policy lru,opt,lookahead,window:2 --capacity 1.5x,2x"
	for i, combination := range []string{
		"--policy all --capacity 1.5x,2x --per request " + newsTrace,
		"--policy lossy --capacity 1x,2x --per layer",
		exact + " --pool request --per stream",
		"--policy lru,lookahead --capacity 1x --tier dram=lru@2x --tier cxl=lru@4x",
		"--policy lru,opt --capacity 1.5x,2x --prefetch candidates:0.25x --per request",
		exact + " --mtp 2",
		exact + " --share-heads ../../datasets/corpus/deep_summary_go.parquet",
		"--policy lru,lookahead,opt --allocation " + plan,
		"--policy lru,lookahead --reallocate 32 --allocation " + plan,
		"--policy lru,opt --capacity 2x --block-tokens 8 --local 32 --outliers windows:16",
		"--policy lru,opt --capacity 1x+2x@16",
		"--policy lru,window:1 --capacity 1x,4x --clusters lists --per request " + clusterTrace + " " + clusterTrace2,
	} {
		if testing.Short() && i%8 != 1 {
			continue
		}
		t.Run(combination, func(t *testing.T) {
			args := strings.Fields(combination)
			if !strings.Contains(combination, "--clusters") {
				args = append(args, deepTrace)
			}
			one := filepath.Join(t.TempDir(), "one")
			must(t, append([]string{"replay", "--out", one}, args...)...)
			for _, hours := range []string{everyChunk, "5e-5"} {
				path, shards := planBatch(t, hours, args...)
				if hours == everyChunk && shards < 2 {
					t.Errorf("%d shards, expected several", shards)
				}
				r := rand.New(rand.NewPCG(uint64(i), 3))
				for _, shard := range append(r.Perm(shards), r.IntN(shards)) {
					must(t, "batch", "run", path, "--shard", fmt.Sprint(shard), "--parallel", fmt.Sprint(1+r.IntN(3)))
				}
				many := filepath.Join(t.TempDir(), "many")
				must(t, "batch", "merge", path, "--out", many)
				sameTree(t, one, many)
				if i > 0 && testing.Short() {
					break
				}
			}
		})
	}
}

// shardTrace writes a trace of twelve chunks.
func shardTrace(t *testing.T, name string, seed uint64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 512, BlockTokens: 1, EntryBytes: 656})
	fatal.If(t, err)
	for layer := range 12 {
		s := replaytest.Overlapping(seed+uint64(layer), 8192, 512, 640, 1650, 0.8)
		s.Layer = int32(layer)
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	return path
}

// Attempts at shards are killed (SIGKILL) at random moments, in random order, often two at one
// shard. The shards of a second batch are cut differently. Both merge to the bytes of one machine.
func TestKilledShardsContinue(t *testing.T) {
	t.Parallel()
	bin := program(t)
	a, b := shardTrace(t, "a.parquet", 1), shardTrace(t, "b.parquet", 100)
	args := []string{a, b, "--policy", "lru,fifo,opt,window:2", "--capacity", "1.5x,2x", "--per", "layer"}
	one := filepath.Join(t.TempDir(), "one")
	must(t, append([]string{"replay", "--out", one}, args...)...)
	kills, batches := 300, 6
	if testing.Short() {
		kills, batches = 20, 1
	}
	r := rand.New(rand.NewPCG(4, 2))
	killed, resumed, doubled, merges := 0, 0, 0, 0
	calm, _ := planBatch(t, "2e-5", args...)
	began := time.Now()
	if out, err := exec.Command(bin, "batch", "run", calm, "--shard", "0", "--parallel", "1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	typical := time.Since(began) // of an attempt that is not killed
	for killed < kills {
		path, shards := planBatch(t, []string{"2e-5", "4e-5", everyChunk}[merges%3], args...)
		most := killed + kills/batches // then it ends in peace
		for open := r.Perm(shards); len(open) > 0; {
			pair := []int{open[0], open[r.IntN(min(2, len(open)))]} // often two attempts at one shard
			doubled += map[bool]int{true: 1}[pair[0] == pair[1]]
			done, took := make([]bool, 2), make([]time.Duration, 2)
			var both sync.WaitGroup
			for i, shard := range pair {
				cmd := exec.Command(bin, "batch", "run", path, "--shard", fmt.Sprint(shard), "--parallel", fmt.Sprint(1+r.IntN(2)), "--checkpoint", "1ms")
				delay := time.Hour
				if killed < min(kills, most) {
					delay = time.Duration(r.Int64N(int64(typical)))
				}
				both.Go(func() {
					began := time.Now()
					if err := cmd.Start(); err != nil {
						t.Error(err)
						return
					}
					timer := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
					done[i] = cmd.Wait() == nil
					timer.Stop()
					if code := cmd.ProcessState.ExitCode(); code > 0 {
						t.Errorf("shard %d: exit code %d", shard, code)
					}
					took[i] = time.Since(began)
				})
			}
			both.Wait()
			if done[0] {
				typical = (3*typical + took[0]) / 4
			}
			for i, shard := range pair {
				if !done[i] {
					killed++
					typical += typical / 16 // the machine may be slower now
				} else if at := slices.Index(open, shard); at >= 0 {
					open = slices.Delete(open, at, at+1)
				}
				if _, err := os.Stat(filepath.Join(path+".packs", fmt.Sprintf("shard-%06d.begun.jsonl.zst", shard))); err == nil {
					resumed++
				}
			}
		}
		many := filepath.Join(t.TempDir(), "many")
		must(t, "batch", "merge", path, "--out", many)
		sameTree(t, one, many)
		merges++
	}
	if resumed == 0 && !testing.Short() {
		t.Errorf("%d kills, but no attempt kept its counts", killed)
	}
	t.Logf("%d kills, %d times with counts kept, %d doubled attempts, %d merges", killed, resumed, doubled, merges)
}

// A shard that gets SIGTERM keeps its counts and exits with 143. The next attempt continues.
func TestShardObeysSIGTERM(t *testing.T) {
	bin := program(t)
	args := []string{shardTrace(t, "a.parquet", 1), "--policy", "lru,lfu,fifo,opt,arc", "--capacity", "1.5x,2x"}
	one := filepath.Join(t.TempDir(), "one")
	must(t, append([]string{"replay", "--out", one}, args...)...)
	path, _ := planBatch(t, "10", args...)
	code, text := 0, ""
	for range 100 { // until the signal arrives before the end
		fatal.If(t, os.RemoveAll(path+".packs"))
		cmd := exec.Command(bin, "batch", "run", path, "--shard", "0", "--parallel", "1", "--checkpoint", "1ms")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = endsBy(t, cmd, syscall.SIGTERM, func() bool { return exists(filepath.Join(path+".packs", "shard-000000.begun.jsonl.zst")) })
		if code, text = cmd.ProcessState.ExitCode(), stderr.String(); code > 0 {
			break
		}
	}
	if code != 143 || !strings.Contains(text, " saved: repeat the command to continue") {
		t.Fatalf("exit %d: %s", code, text)
	}
	stdout, stderrText := kvreplay(t, 1, "batch", "status", path)
	if !strings.Contains(stdout, "shard 0 is begun") || !strings.Contains(stdout, "sbatch --array=0 ") || !strings.Contains(stderrText, "1 of 1 shard missing: --array=0") {
		t.Errorf("status: %s%s", stdout, stderrText)
	}
	_, said := kvreplay(t, 0, "batch", "run", path, "--shard", "0")
	if !strings.Contains(said, "counted before") {
		t.Errorf("%s", said)
	}
	_, said = kvreplay(t, 0, "batch", "run", path, "--shard", "0")
	if !strings.Contains(said, "finished before") {
		t.Errorf("%s", said)
	}
	must(t, "batch", "status", path)
	many := filepath.Join(t.TempDir(), "many")
	must(t, "batch", "merge", path, "--out", many)
	sameTree(t, one, many)
}

// Each attempt gets SIGTERM soon after it opens the trace. It finishes a begun chunk, so the shard ends.
func TestPreemptedShardProgresses(t *testing.T) {
	t.Parallel()
	bin, tracePath := program(t), shardTrace(t, "a.parquet", 1)
	path, _ := planBatch(t, "10", tracePath, "--policy", "lru,fifo", "--capacity", "2x")
	for saved, wait := 0, time.Duration(0); ; {
		cmd := exec.Command(bin, "batch", "run", path, "--shard", "0", "--parallel", "1", "--checkpoint", "1h")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		fatal.If(t, cmd.Start())
		untilItOpens(t, cmd.Process.Pid, tracePath)
		time.Sleep(wait)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err == nil {
			break
		}
		n, first := 0, strings.Contains(stderr.String(), "stopped before its first chunk: repeat")
		_, after, _ := strings.Cut(stderr.String(), "stopped with ")
		_, err := fmt.Sscanf(after, "%d of 12 chunks saved: repeat the command", &n)
		if cmd.ProcessState.ExitCode() != 143 || err != nil && !first || n < saved || wait > 10*time.Second {
			t.Fatalf("exit %d after %d saved chunks: %s", cmd.ProcessState.ExitCode(), saved, stderr.String())
		}
		if n == saved { // no chunk was begun
			wait += 10 * time.Millisecond
		}
		saved = n
	}
	must(t, "batch", "status", path)
}

// The number of a shard comes from --shard or the environment.
func TestShardNumber(t *testing.T) {
	path, _ := planBatch(t, "10", newsTrace, "--policy", "lru")
	fails(t, 2, "no shard", "batch", "run", path)
	t.Setenv("KVREPLAY_SHARD", "1")
	fails(t, 2, "shard 1: the batch has shards 0 to 0", "batch", "run", path)
	fails(t, 2, "shard -2: the batch has shards", "batch", "run", path, "--shard", "-1", "--offset", "-1")
	kvreplay(t, 0, "batch", "run", path, "--offset", "-1")
	t.Setenv("SLURM_ARRAY_TASK_ID", "0")
	fails(t, 2, "$KVREPLAY_SHARD is 1 and $SLURM_ARRAY_TASK_ID is 0", "batch", "run", path)
	t.Setenv("SLURM_ARRAY_TASK_ID", "1")
	t.Setenv("JOB_COMPLETION_INDEX", "x")
	fails(t, 2, `$JOB_COMPLETION_INDEX is "x"`, "batch", "run", path)
	kvreplay(t, 0, "batch", "run", path, "--shard", "0")
}

// A batch file states where its packs are, so no later command needs --packs. Lines that plan prints for other
// packs name them.
func TestBatchFileNamesThePacks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.batch")
	packs := filepath.Join(t.TempDir(), "packs")
	stdout, _ := kvreplay(t, 0, "batch", "plan", newsTrace, "--policy", "lru", "--rate", "3ns", "-o", path, "--packs", packs)
	if strings.Contains(stdout, packs) {
		t.Errorf("%s\nnames packs that the batch file names", stdout)
	}
	_, notes := kvreplay(t, 0, "batch", "plan", path, "--kubernetes")
	if !strings.Contains(notes, packs) {
		t.Errorf("%s\ndoes not ask for a volume for %s", notes, packs)
	}
	must(t, "batch", "run", path, "--shard", "0")
	must(t, "batch", "status", path)
	must(t, "batch", "merge", path, "--out", t.TempDir())
	if !exists(filepath.Join(packs, "shard-000000.jsonl.zst")) {
		t.Errorf("%s has no pack", packs)
	}
	stdout, _ = kvreplay(t, 0, "batch", "plan", path, "--rate", "3ns", "--packs", "s3://b/my packs", "--image", "kvreplay:1", "--cpus", "2")
	for _, line := range []string{
		"--cpus-per-task=2 ",
		"exec kvreplay batch run " + path + " --packs ",
		"  kvreplay batch plan " + path + " --kubernetes --packs 's3://b/my packs' --cpus 2 --image kvreplay:1 |",
		"  kvreplay batch run " + path + " --packs 's3://b/my packs' --shard I",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("%s\nlacks %q", stdout, line)
		}
	}
	_, notes = kvreplay(t, 0, "batch", "plan", path, "--kubernetes", "--packs", "/elsewhere/packs")
	if want := "the Job mounts only the folder of " + path + ": add volumes for files in /elsewhere/packs"; !strings.Contains(notes, want) {
		t.Errorf("%s\nlacks %q", notes, want)
	}
	elsewhere := t.TempDir()
	news, err := filepath.Abs(newsTrace)
	fatal.If(t, err)
	plan := filepath.Join(elsewhere, "sizes.yaml")
	rows, _ := kvreplay(t, 0, "replay", newsTrace, "--policy", "lru", "--capacity", "1x,2x,3x", "--per", "stream", "--format", "jsonl")
	write(t, filepath.Join(elsewhere, "rows.jsonl"), rows)
	kvreplay(t, 0, "allocate", filepath.Join(elsewhere, "rows.jsonl"), "--memory", "2x", "-o", plan)
	kvreplay(t, 0, "batch", "plan", newsTrace, "--policy", "lru", "--allocation", plan, "--rate", "3ns", "-o", path+"2")
	_, notes = kvreplay(t, 0, "batch", "plan", path+"2", "--kubernetes")
	if want := "files in " + elsewhere + ", " + filepath.Dir(news) + ", or"; !strings.Contains(notes, want) {
		t.Errorf("%s\nlacks %q", notes, want)
	}
}

// Flags, traces and packs that a batch cannot use are refused.
func TestBatchRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "b.batch")
	plan := func(code int, want string, args ...string) {
		t.Helper()
		fails(t, code, want, append([]string{"batch", "plan", "-o", out, "--rate", "3ns"}, args...)...)
	}
	plan(2, "--profile: a batch has no profiles", newsTrace, "--profile")
	plan(2, "--referee: a batch keeps counts", newsTrace, "--referee")
	plan(2, "--fresh: a batch never uses", newsTrace, "--fresh")
	plan(2, "--allocation plan.yaml: a batch needs the whole path", newsTrace, "--allocation", "plan.yaml")
	other := filepath.Join(t.TempDir(), filepath.Base(newsTrace))
	write(t, other, content(t, newsTrace))
	plan(2, "same file name", newsTrace, other)
	renamed := filepath.Join(t.TempDir(), "other.parquet")
	write(t, renamed, content(t, newsTrace))
	plan(1, "are the same trace", newsTrace, renamed)
	fails(t, 2, "expected workers=N", "batch", "plan", newsTrace, "--simulate", "machines=3")
	fails(t, 2, "with a unit for bytes", "batch", "plan", newsTrace, "--simulate", "link=125")
	for flag, want := range map[string]string{"--rate=0": "as in 3ns", "--rate=0ns": "as in 3ns", "--rate=3us": "one index and one cell", "--hours=1e300": "at most 1,000,000", "--cpus=100000": "at most 4096"} {
		fails(t, 2, want, "batch", "plan", newsTrace, flag)
	}
	plan(2, "remove one of them", newsTrace, "--kubernetes", "--simulate", "workers=3")
	folder, empty := t.TempDir(), filepath.Join(t.TempDir(), "empty")
	write(t, empty, "")
	for path, want := range map[string]string{folder: folder + " is a folder, expected a batch file", empty: "neither a batch file nor a trace", "../../README.md": "neither a batch file nor a trace"} {
		fails(t, 2, want, "batch", "plan", path, "--policy", "lru")
		fails(t, 2, want, "batch", "run", path, "--shard", "0")
	}
	fails(t, 2, "--kubernetes needs the batch file", "batch", "plan", newsTrace, "--kubernetes")

	path, shards := planBatch(t, everyChunk, deepTrace, "--policy", "lru,fifo", "--capacity", "2x")
	fails(t, 2, "--policy does not change the batch file", "batch", "plan", path, "--policy", "opt")
	merged := filepath.Join(t.TempDir(), "merged")
	refusesMerge := func(want string) {
		t.Helper()
		fails(t, 1, want, "batch", "merge", path, "--out", merged)
		if _, err := os.Stat(merged); err == nil {
			t.Errorf("a refused merge made its folder")
		}
	}
	refusesMerge("nothing is merged: 3 of 3 shards missing: --array=0-2")
	for shard := range shards {
		must(t, "batch", "run", path, "--shard", fmt.Sprint(shard))
	}
	pack := filepath.Join(path+".packs", "shard-000001.jsonl.zst")
	good := content(t, pack)
	damaged := []byte(good)
	damaged[len(damaged)/2] ^= 4
	write(t, pack, string(damaged))
	refusesMerge("1 of 3 shards missing: --array=1")
	stdout, _ := kvreplay(t, 1, "batch", "status", path)
	if !strings.Contains(stdout, pack+" is damaged") || !strings.Contains(stdout, "sbatch --array=1 ") {
		t.Errorf("status: %s", stdout)
	}
	write(t, pack, content(t, filepath.Join(path+".packs", "shard-000002.jsonl.zst")))
	refusesMerge("--array=1")
	otherBatch, _ := planBatch(t, everyChunk, deepTrace, "--policy", "lru", "--capacity", "2x")
	must(t, "batch", "run", otherBatch, "--shard", "1", "--packs", path+".packs")
	elsewhere, _ := planBatch(t, everyChunk, deepTrace, "--policy", "lru", "--packs", filepath.Join(folder, "planned"))
	if _, said := kvreplay(t, 0, "batch", "run", elsewhere, "--shard", "0", "--packs", filepath.Join(folder, "other")); !strings.Contains(said, "other is not the folder of batch plan, ") {
		t.Errorf("%s", said)
	}
	stdout, _ = kvreplay(t, 1, "batch", "status", path)
	if !strings.Contains(stdout, "is a pack of another batch") {
		t.Errorf("status: %s", stdout)
	}
	refusesMerge("--array=1")
	fails(t, 2, "is a pack of another batch: name another folder with --packs", "batch", "run", path, "--shard", "1")
	write(t, pack, good)
	stray := filepath.Join(path+".packs", "shard-000007.jsonl.zst")
	write(t, stray, good)
	refusesMerge("belongs to no shard of the batch")
	fatal.If(t, os.Remove(stray))
	must(t, "batch", "merge", path, "--out", merged)

	broken := filepath.Join(t.TempDir(), "broken.batch")
	write(t, broken, strings.Replace(content(t, path), `"from":0`, `"from":1`, 1))
	fails(t, 2, ": damaged, or neither a batch file nor a trace", "batch", "run", broken, "--shard", "0")
	fails(t, 1, "no such file", "batch", "run", broken+"x", "--shard", "0")
}

// A shard refuses a trace that is not the planned one. Another attempt cannot help: exit code 2.
func TestShardRefusesAnotherTrace(t *testing.T) {
	at := filepath.Join(t.TempDir(), "t.parquet")
	write(t, at, content(t, newsTrace))
	path, _ := planBatch(t, "1", at, "--policy", "lru")
	write(t, at, content(t, bundledNiah))
	fails(t, 2, "the batch file pins sha256:", "batch", "run", path, "--shard", "0")
	write(t, at, content(t, newsTrace)[:200000])
	fails(t, 2, "t.parquet", "batch", "run", path, "--shard", "0")
	fatal.If(t, os.Remove(at))
	fails(t, 1, "no such file", "batch", "run", path, "--shard", "0")
}

// A moved folder with the batch file, the traces and the packs still works.
func TestBatchFolderMoves(t *testing.T) {
	root := t.TempDir()
	before, after := filepath.Join(root, "before"), filepath.Join(root, "after")
	fatal.If(t, os.MkdirAll(filepath.Join(before, "traces"), 0o755))
	write(t, filepath.Join(before, "traces", "a.parquet"), content(t, newsTrace))
	t.Chdir(before)
	must(t, "batch", "plan", "traces/a.parquet", "--policy", "lru", "--rate", "3ns", "-o", "g.batch")
	t.Chdir(root)
	fatal.If(t, os.Rename(before, after))
	must(t, "batch", "run", "after/g.batch", "--shard", "0")
	must(t, "batch", "merge", "after/g.batch", "--out", "results")
}
