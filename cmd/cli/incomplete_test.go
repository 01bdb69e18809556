package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// After Ctrl-C in the second of two traces, every output of the folder states that it is
// incomplete, with exit code 3. The same command completes the folder.
func TestInterruptedFolderIsIncomplete(t *testing.T) {
	bin, second := program(t), longTrace(t)
	first := smallTrace(t, small)
	out := filepath.Join(t.TempDir(), "results")
	args := []string{"replay", first, second, "--policy", "lru,fifo,opt", "--capacity", "1.5x,2x", "--per", "stream", "--parallel", "1", "--out", out}
	stopped := false
	for range 100 { // until a signal arrives before the second trace is finished
		fatal.If(t, os.RemoveAll(out))
		cmd := exec.Command(bin, args...)
		if err := endsBy(t, cmd, os.Interrupt, func() bool { return exists(filepath.Join(out, "small.rows.jsonl")) }); err != nil && cmd.ProcessState.ExitCode() != 130 {
			t.Fatal(err)
		}
		if stopped = !exists(filepath.Join(out, "long.rows.jsonl")); stopped {
			break
		}
	}
	if !stopped {
		t.Fatal("no interrupt landed in the second trace")
	}
	const mark = "INCOMPLETE: 1 of 2 traces"
	for _, c := range [][]string{
		{"leaderboard", out}, {"leaderboard", out, "--format", "markdown"}, {"compare", "lru", "fifo", out}, {"compare", "lru", "fifo", out, "--format", "markdown"},
	} {
		stdout, stderr := kvreplay(t, 3, c...)
		if !strings.Contains(stdout, mark) || !strings.Contains(stdout, "Missing: long.parquet") || !strings.Contains(stderr, mark+". Missing: long.parquet. Run the same replay command again") {
			t.Errorf("%v: %s%s", c, stdout, stderr)
		}
	}
	kvreplay(t, 3, "allocate", out, "--policy", "lru", "--memory", "4x")
	board := t.TempDir()
	kvreplay(t, 3, "leaderboard", out, "--out", board)
	for name, want := range map[string]string{"leaderboard.md": "# " + mark, "leaderboard.csv": ",1 of 2 traces,", "curves-small.svg": mark} {
		if text, err := os.ReadFile(filepath.Join(board, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v", name, want, err)
		}
	}
	for _, command := range [][]string{{"leaderboard", out}, {"compare", "lru", "fifo", out}} {
		stdout, _ := kvreplay(t, 3, append(command, "--format", "json")...)
		var said struct {
			Incomplete struct{ Traces, Complete int }
		}
		if err := json.Unmarshal([]byte(stdout), &said); err != nil || said.Incomplete.Traces != 2 || said.Incomplete.Complete != 1 {
			t.Errorf("%v: %+v, %v", command, said, err)
		}
	}
	if stdout, _ := kvreplay(t, 0, "leaderboard", out, "--where", "trace!=long.parquet"); strings.Contains(stdout, "INCOMPLETE") {
		t.Errorf("the selection is complete:\n%s", stdout)
	}
	kvreplay(t, 0, "leaderboard", filepath.Join(out, "small.rows.jsonl")) // a single file has no requested cells
	if text, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if stdout, _ := kvreplay(t, 0, "leaderboard", out); strings.Contains(stdout, "INCOMPLETE") {
		t.Errorf("the folder is complete:\n%s", stdout)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A folder records the cells of all runs into it. Other traces, policies and settings add up, and
// missing rows are noticed.
func TestAskedCellsAddUp(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	other := small
	other.Prompt = 90
	second := tracetest.Copy(t, smallTrace(t, other), "second.parquet")
	replay := func(path, policies string) {
		kvreplay(t, 0, "replay", path, "--policy", policies, "--capacity", "1x,2x", "--out", out)
	}
	board := func(code int, want string, where ...string) {
		t.Helper()
		args := []string{"leaderboard", out}
		for _, w := range where {
			args = append(args, "--where", w)
		}
		if stdout, stderr := kvreplay(t, code, args...); !strings.Contains(stdout+stderr, want) {
			t.Errorf("%v: no %q in %s%s", where, want, stdout, stderr)
		}
	}
	replay(path, "lru,opt")
	before := rowsOf(t, out)
	replay(path, "fifo")
	replay(second, "lru,opt")
	board(0, "lru")
	rows := filepath.Join(out, "small.rows.jsonl")
	if err := os.WriteFile(rows, before, 0o644); err != nil { // the state while fifo is replayed
		t.Fatal(err)
	}
	board(3, "INCOMPLETE: 1 of 2 traces. Missing: small.parquet (2 of 6 cells)")
	board(3, "INCOMPLETE: 0 of 1 trace. Missing: small.parquet (2 of 6 cells)", "trace=small.parquet")
	board(3, "Missing: small.parquet (1 of 3 cells)", "trace=small.parquet", "capacity=2x", "misses!=0")
	board(0, "lru", "policy!=fifo")
	board(0, "lru", "trace!=small.parquet")
	fatal.If(t, os.Remove(rows))
	board(3, "INCOMPLETE: 1 of 2 traces. Missing: small.parquet. Run")
	fatal.If(t, os.Remove(filepath.Join(out, "second.rows.jsonl")))
	board(3, "INCOMPLETE: 0 of 2 traces. Missing: second.parquet, small.parquet. Run")
	replay(path, "lru") // writes all finished rows
	replay(second, "lru")
	board(0, "fifo")
	// The note about a trace's requested cells must also be removed to drop the trace.
	fatal.If(t, os.Remove(rows))
	fatal.If(t, os.Remove(filepath.Join(out, "asked", "small.json")))
	board(0, "lru")
}

// If the note about requested cells is damaged, a board and a replay end before the work, with a
// remedy. After that the finished cells are found.
func TestDamagedAskedFile(t *testing.T) {
	path, out := smallTrace(t, small), t.TempDir()
	args := []string{"replay", path, "--policy", "lru,opt", "--capacity", "2x", "--out", out}
	kvreplay(t, 0, args...)
	want := rowsOf(t, out)
	asked := filepath.Join(out, "asked", "small.json")
	for _, damage := range []func([]byte) []byte{
		func(text []byte) []byte { return text[:len(text)/2] },
		func(text []byte) []byte { return bytes.Replace(text, []byte("lru"), []byte("opt"), 1) },
		func([]byte) []byte { return nil },
	} {
		text, err := os.ReadFile(asked)
		fatal.If(t, err)
		fatal.If(t, os.WriteFile(asked, damage(text), 0o644))
		for _, command := range [][]string{{"leaderboard", out}, args} {
			if _, stderr := kvreplay(t, 1, command...); !strings.Contains(stderr, asked+" is damaged. Remove it") {
				t.Errorf("%v: %s", command, stderr)
			}
		}
		fatal.If(t, os.Remove(asked))
		if _, stderr := kvreplay(t, 0, args...); !strings.Contains(stderr, "(2 cells were already in it)") || !bytes.Equal(rowsOf(t, out), want) {
			t.Errorf("after the remedy: %s", stderr)
		}
	}
}
