package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/replaytest"
	"github.com/kvreplay/kvreplay/trace"
)

// buildProgram builds the real binary in a folder of its own, which TestMain removes.
var buildProgram = sync.OnceValues(func() (bin string, err error) {
	programBuilt.Store(true)
	dir, err := os.MkdirTemp("", "kvreplay-test-")
	if err != nil {
		return "", err
	}
	bin = filepath.Join(dir, "kvreplay")
	build := exec.Command("go", "build", "-o", bin, "../kvreplay")
	build.Dir = packageFolder
	if out, err := build.CombinedOutput(); err != nil {
		return bin, fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
})

var (
	packageFolder string // because tests change the working directory
	programBuilt  atomic.Bool
)

func TestMain(m *testing.M) {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	packageFolder = dir
	code := m.Run()
	if programBuilt.Load() {
		if bin, _ := buildProgram(); bin != "" {
			_ = os.RemoveAll(filepath.Dir(bin))
		}
	}
	os.Exit(code)
}

// program is the real binary, built once for all tests that start or kill it.
func program(t *testing.T) string {
	t.Helper()
	bin, err := buildProgram()
	fatal.If(t, err)
	return bin
}

// untilItOpens waits until a process has ended or opened a file whose path begins with one of the
// paths. It listens to signals before it opens one.
func untilItOpens(t *testing.T, pid int, paths ...string) {
	t.Helper()
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	if _, err := os.Stat(fds); err != nil {
		t.Skip("needs /proc to see what a process does")
	}
	for {
		open, err := os.ReadDir(fds)
		if err != nil || len(open) == 0 {
			return // ended
		}
		for _, fd := range open {
			target, _ := os.Readlink(filepath.Join(fds, fd.Name()))
			if slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(target, p) }) {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// longTrace writes a trace of several parts, so that a run can be stopped in the middle.
func longTrace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "long.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 512, BlockTokens: 1, EntryBytes: 656})
	fatal.If(t, err)
	for layer := range 10 {
		s := replaytest.Overlapping(uint64(layer), 8192, 512, 640, 600, 0.8)
		s.Layer = int32(layer)
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	return path
}

func replayArgs(tracePath, out string, parallel int) []string {
	return []string{"replay", tracePath, "--policy", "lru", "--policy", "fifo", "--policy", "opt", "--policy", "window:2", "--capacity", "1.5x,2x",
		"--per", "layer", "--out", out, "--checkpoint", "1ms", "--parallel", fmt.Sprint(parallel)}
}

// rowsOf returns the rows file of a folder, or nil if there is none yet.
func rowsOf(t *testing.T, out string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "*.jsonl"))
	if err != nil || len(files) > 1 {
		t.Fatalf("rows files %v, %v", files, err)
	}
	if len(files) == 0 {
		return nil
	}
	text, err := os.ReadFile(files[0])
	fatal.If(t, err)
	return text
}

// A run is killed (SIGKILL) at a hundred random moments and restarted each time. It ends with the
// bytes of an undisturbed run, for any number of workers, and leaves no incomplete file.
func TestKilledRunsContinue(t *testing.T) {
	t.Parallel()
	bin, tracePath := program(t), longTrace(t)
	calm := filepath.Join(t.TempDir(), "calm")
	began := time.Now()
	if out, err := exec.Command(bin, replayArgs(tracePath, calm, 1)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	longest := time.Since(began)
	want := rowsOf(t, calm)
	kills := 100
	if testing.Short() {
		kills = 15
	}
	r := rand.New(rand.NewPCG(1, 2))
	out := filepath.Join(t.TempDir(), "killed")
	resumed, completed := 0, 0
	for killed := 0; killed < kills; {
		cmd := exec.Command(bin, replayArgs(tracePath, out, 1+r.IntN(3))...)
		fatal.If(t, cmd.Start())
		timer := time.AfterFunc(time.Duration(r.Int64N(int64(longest))), func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if err != nil {
			killed++
			if keptParts(out) > 0 {
				resumed++
			} else {
				longest += longest / 4 // the machine is slower now
			}
			continue
		}
		completed++
		longest -= longest / 8
		checkFinished(t, out, want)
		fatal.If(t, os.RemoveAll(out))
	}
	if text, err := exec.Command(bin, replayArgs(tracePath, out, 2)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	checkFinished(t, out, want)
	if resumed == 0 {
		t.Errorf("%d kills, %d runs completed between them, but none was killed with progress kept", kills, completed)
	}
	t.Logf("%d kills, %d of them with progress kept, %d runs completed between them", kills, resumed, completed)
}

// With --pool, a run continues pool by pool. Killed between two pools it continues with the next
// one, and ends with the bytes of an undisturbed run.
func TestKilledPoolsContinue(t *testing.T) {
	bin, tracePath := program(t), pooledTrace(t)
	args := func(out string, parallel int) []string {
		return []string{"replay", tracePath, "--pool", "request", "--policy", "lru", "--policy", "lookahead", "--policy", "opt", "--capacity", "1.5x,2x",
			"--per", "stream", "--out", out, "--checkpoint", "1ms", "--parallel", fmt.Sprint(parallel)}
	}
	calm, out := filepath.Join(t.TempDir(), "calm"), filepath.Join(t.TempDir(), "killed")
	if text, err := exec.Command(bin, args(calm, 2)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	// The run is killed as soon as it has kept a part. The next run continues from there.
	killed := 0
	for range 100 { // until one is done
		before := keptParts(out)
		cmd := exec.Command(bin, args(out, 1)...)
		if endsBy(t, cmd, os.Kill, func() bool { return keptParts(out) > before }) != nil {
			killed++
			continue
		}
		if killed > 0 {
			break
		}
		if err := os.RemoveAll(out); err != nil { // it ended before the kill
			t.Fatal(err)
		}
	}
	if killed == 0 {
		t.Fatal("no run was killed between two pools")
	}
	if text, err := exec.Command(bin, args(out, 2)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	checkFinished(t, out, rowsOf(t, calm))
	t.Logf("%d kills, each after a pool was kept", killed)
}

// pooledTrace writes twelve requests of four layers.
func pooledTrace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pools.parquet")
	w, err := trace.Create(path, trace.Meta{Order: trace.OrderRank, TopK: 128, BlockTokens: 1, EntryBytes: 656})
	fatal.If(t, err)
	for n := range 48 {
		s := replaytest.Overlapping(uint64(n), 2048, 128, 160, 150, 0.8)
		s.Key = trace.Key{Request: fmt.Sprintf("r%02d", n/4), Layer: int32(n % 4), Head: trace.NoHead}
		fatal.If(t, w.Write(s))
	}
	fatal.If(t, w.Close())
	return path
}

// keptParts returns the number of files of unfinished passes in a folder.
func keptParts(out string) int {
	kept, _ := filepath.Glob(filepath.Join(out, "partial", "*", "*.json"))
	return len(kept)
}

// endsBy starts a program and sends it a signal as soon as due returns true. It returns the error of the
// program's end. It is nil if the program succeeded before, or no longer handled the signal at its end.
func endsBy(t *testing.T, cmd *exec.Cmd, signal os.Signal, due func() bool) error {
	t.Helper()
	fatal.If(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Millisecond):
			if due() {
				_ = cmd.Process.Signal(signal)
				err := <-ended
				if signal != os.Kill && cmd.ProcessState.ExitCode() == -1 {
					return nil
				}
				return err
			}
		}
	}
}

func checkFinished(t *testing.T, out string, want []byte) {
	t.Helper()
	if got := rowsOf(t, out); !bytes.Equal(got, want) {
		t.Fatalf("rows differ from those of an undisturbed run:\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(out, "partial")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a finished run left its folder of parts: %v", err)
	}
}

// Ctrl-C finishes open work, keeps the counts, states how to continue and exits with 130.
func TestCtrlC(t *testing.T) {
	bin, tracePath := program(t), longTrace(t)
	calm, out := filepath.Join(t.TempDir(), "calm"), filepath.Join(t.TempDir(), "stopped")
	if text, err := exec.Command(bin, replayArgs(tracePath, calm, 1)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for range 100 { // until the signal arrives before the end
		cmd := exec.Command(bin, replayArgs(tracePath, out, 1)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if endsBy(t, cmd, os.Interrupt, func() bool { return keptParts(out) > 0 }) == nil {
			fatal.If(t, os.RemoveAll(out))
			continue
		}
		if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "run the same command again") {
			t.Fatalf("exit %d: %s", code, stderr.String())
		}
		if text, err := exec.Command(bin, replayArgs(tracePath, out, 2)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		checkFinished(t, out, rowsOf(t, calm))
		return
	}
	t.Fatal("no interrupt landed in the middle of a run")
}

// Ctrl-C also ends a command that only reads, even if no further byte arrives.
func TestCtrlCWhileReading(t *testing.T) {
	dir := t.TempDir()
	bin, pipe, rows, out := program(t), filepath.Join(dir, "pipe"), filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "out")
	fatal.If(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(rows, nil, 0o600)))
	for _, args := range [][]string{{"leaderboard", pipe}, {"compare", "lru", "opt", pipe}, {"allocate", pipe, "--memory", "2x"},
		{"leaderboard", "verify", pipe, "--traces", pipe}, {"allocate", pipe, "--plan", pipe}, {"replay", "t.parquet", "--allocation", pipe},
		{"replay", "t.parquet", "--clusters", pipe}, {"leaderboard", "verify", rows, "--traces", "t.parquet", "--allocation", pipe},
		{"time", "--prompt", "8", "--generate", "2", "--model", "opt-6.7b", "--schedule", "flexgen", "--kernels", pipe}, {"hardware", "fit", pipe},
		{"datasets", "make", "synthetic", "--dials", pipe, "-o", out}, {"datasets", "make", "longbench-v2", pipe, "-o", out},
		{"datasets", "make", "ruler", "--task", "niah_single_2", "--essays", pipe, "-o", out}, {"datasets", "make", "ruler", "--task", "qa_1", "--squad", pipe, "-o", out},
		{"datasets", "make", "ruler", "--tokenizer", pipe, "-o", out}, {"datasets", "make", "offline", "--task", "qa_text", "--text", pipe, "-o", out}} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, bin, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		fatal.If(t, cmd.Start())
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the command reads
		fatal.If(t, err)
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("%v: %v: %s", args, err, stderr.String())
		}
		w.Close()
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// On a full file system (here a limit on file sizes), the run ends with an error that states it.
// Earlier kept files are whole.
func TestDiskFull(t *testing.T) {
	bin, tracePath := program(t), longTrace(t)
	out := filepath.Join(t.TempDir(), "full")
	command := func(limit string) *exec.Cmd {
		quoted := make([]string, 0, 16)
		for _, a := range append([]string{bin}, replayArgs(tracePath, out, 1)...) {
			quoted = append(quoted, "'"+a+"'")
		}
		return exec.Command("bash", "-c", "ulimit -f "+limit+"; exec "+strings.Join(quoted, " "))
	}
	text, err := command("2").CombinedOutput() // 2 KiB: no rows fit
	if err == nil || !strings.Contains(string(text), "kvreplay: keep results: write "+out) || !strings.Contains(string(text), "is the disk full?") {
		t.Fatalf("%v\n%s", err, text)
	}
	if rowsOf(t, out) != nil {
		t.Fatal("rows were kept although the disk was full")
	}
	if text, err := command("unlimited").CombinedOutput(); err != nil {
		t.Fatalf("with room again: %v\n%s", err, text)
	}
	if len(rowsOf(t, out)) == 0 {
		t.Fatal("no rows")
	}
}

// A profile without room on the disk fails after the rows, which are kept. The error states how to
// get the profile. The same command then makes it, and replays the missing cells.
func TestProfileDiskFull(t *testing.T) {
	bin, out := program(t), t.TempDir()
	first, second := "../../datasets/bundled/smollm2_niah_1k_sglang.parquet", "../../datasets/bundled/smollm2_niah_multikey_3_4k.parquet"
	command := func(limit string) (string, error) {
		text, err := exec.Command("bash", "-c", "ulimit -f "+limit+"; exec "+bin+" replay "+first+" "+second+" --policy lru,opt --capacity 1x,2x --profile --out "+out).CombinedOutput()
		return string(text), err
	}
	text, err := command("10") // KiB, for a profile of 34
	rows, _ := filepath.Glob(filepath.Join(out, "*.jsonl"))
	if err == nil || len(rows) != 1 || !strings.Contains(text, "is the disk full?") || !strings.Contains(text, "the rows are kept in "+rows[0]) || !strings.Contains(text, "replays this trace and the later ones") {
		t.Fatalf("%v, rows %v\n%s", err, rows, text)
	}
	if entries, err := filepath.Glob(filepath.Join(out, ".*")); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	if text, err := command("unlimited"); err != nil || !strings.Contains(text, "of 2 traces") {
		t.Errorf("with room again: %v\n%s", err, text)
	}
	if found, _ := filepath.Glob(filepath.Join(out, "*.profile-*.parquet")); len(found) != 2 {
		t.Errorf("profiles %v", found)
	}
}

// A file in the place of the rows is reported before the work.
func TestRowsPlaceIsTaken(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "lru", "--capacity", "1x", "--out", out}
	kvreplay(t, 0, args...)
	rows := rowsPath(t, out)
	fatal.If(t, errors.Join(os.Remove(rows), os.Mkdir(rows, 0o755), os.RemoveAll(filepath.Join(out, "cells"))))
	if _, stderr := kvreplay(t, 2, args...); !strings.Contains(stderr, "output "+rows+" is a folder") {
		t.Error(stderr)
	}
	if cells, _ := filepath.Glob(filepath.Join(out, "cells", "*")); len(cells) > 0 {
		t.Errorf("replayed %v before", cells)
	}
}

// A command without room on the disk names the file that it could not write, and leaves nothing of
// it.
func TestDiskFullLeavesNothing(t *testing.T) {
	bin := program(t)
	clustered, err := filepath.Abs("../../datasets/corpus/selectors_qa_text.retroinfer.parquet")
	fatal.If(t, err)
	for _, c := range []struct{ args, want string }{
		{"clusters " + clustered + " -o OUT/clusters.jsonl", "clusters OUT/clusters.jsonl: write output: "},
		{"policies new mine --dir OUT/module", "write OUT/module/mine/mine.go: "},
	} {
		out := t.TempDir()
		text, err := exec.Command("bash", "-c", "ulimit -f 1; exec "+bin+" "+strings.ReplaceAll(c.args, "OUT", out)).CombinedOutput()
		if want := strings.ReplaceAll(c.want, "OUT", out); err == nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %s, want %q", c.args, err, text, want)
		}
		if err := filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				t.Errorf("%s left %s", c.args, path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// Two concurrent runs into one folder both succeed, with the rows that each has alone.
func TestTwoRunsOneFolder(t *testing.T) {
	bin, tracePath := program(t), longTrace(t)
	calm, out := filepath.Join(t.TempDir(), "calm"), filepath.Join(t.TempDir(), "shared")
	if text, err := exec.Command(bin, replayArgs(tracePath, calm, 2)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	a, b := exec.Command(bin, replayArgs(tracePath, out, 1)...), exec.Command(bin, replayArgs(tracePath, out, 1)...)
	var textA, textB bytes.Buffer
	a.Stderr, b.Stderr = &textA, &textB
	for _, cmd := range []*exec.Cmd{a, b} {
		fatal.If(t, cmd.Start())
	}
	if err := a.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, textA.String())
	}
	if err := b.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, textB.String())
	}
	if got := rowsOf(t, out); !bytes.Equal(got, rowsOf(t, calm)) {
		t.Fatalf("rows differ:\n%s", got)
	}
}

// Any signal that stops a command leaves no file, with the exit code that shells expect. A command
// that keeps nothing says so. Only replay mentions --out.
func TestStopped(t *testing.T) {
	bin, tracePath := program(t), longTrace(t)
	for _, c := range []struct {
		signal syscall.Signal
		code   int
		args   []string
		want   string
	}{
		{syscall.SIGTERM, 143, []string{"replay", tracePath, "--policy", "all"}, "No counts of this trace are kept (--out FOLDER keeps finished work)"},
		{syscall.SIGHUP, 129, []string{"replay", tracePath, "--policy", "all", "--profile", "--out", "OUT"}, "No counts of this trace are kept: profiles are written only for whole traces"},
		{syscall.SIGINT, 130, []string{"datasets", "fit", tracePath, "-o", "OUT/dials.yaml"}, "interrupted; no unfinished file is left"},
		{syscall.SIGINT, 130, []string{"datasets", "make", "ruler", "--samples", "500", "-o", "OUT/p.jsonl"}, "kvreplay: interrupted; no unfinished file is left"},
	} {
		out := t.TempDir()
		var args []string
		for _, a := range c.args {
			args = append(args, strings.Replace(a, "OUT", out, 1))
		}
		cmd := exec.Command(bin, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		fatal.If(t, cmd.Start())
		untilItOpens(t, cmd.Process.Pid, tracePath, out)
		_ = cmd.Process.Signal(c.signal)
		if err := cmd.Wait(); err == nil {
			t.Logf("%v ended before the signal", c.args)
			continue
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%v: exit %d, %s, expected %d and %q", c.args, code, stderr.String(), c.code, c.want)
		}
		entries, err := os.ReadDir(out)
		fatal.If(t, err)
		for _, e := range entries {
			if !e.IsDir() {
				t.Errorf("%v left %s", c.args, e.Name())
			}
		}
	}
}
