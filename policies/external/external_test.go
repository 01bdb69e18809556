package external_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/external"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/policytest"
	"github.com/kvreplay/kvreplay/policies/scoreewma"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// childVariable makes the test program a child. Its value is how the child behaves.
const childVariable = "KVREPLAY_TEST_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(childVariable); how != "" {
		beChild(how)
		os.Exit(0)
	}
	code := m.Run()
	external.StopAll()
	os.Exit(code)
}

// streamsAtOnce is the number of streams of a child whose behaviour ends in atOnce.
const (
	streamsAtOnce = 4
	atOnce        = " at once"
)

// beChild speaks the protocol for a policy in Go, and does wrong what how names.
func beChild(how string) {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	how, many := strings.CutSuffix(how, atOnce)
	send := func(kind byte, payload []byte) {
		out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload)+1)), kind))
		out.Write(payload)
		if kind != 'V' || !many || in.Buffered() == 0 { // else all answers at once
			out.Flush()
		}
	}
	entry := lru.Entry
	needs := []string{}
	switch how {
	case "scores":
		entry, needs = scoreewma.Entry, []string{"scores"}
	case "columns":
		needs = []string{"demand", "picked", "candidates?"}
	case "unknown need":
		needs = []string{"tea"}
	case "print":
		fmt.Println("hello, world")
	case "mute":
		time.Sleep(time.Hour)
	case "exit":
		fmt.Fprintln(os.Stderr, "ImportError: no module named numpy")
		os.Exit(3)
	case "version":
		send('H', []byte(`{"protocol": 99}`))
	}
	make, _, err := entry.New("")
	if err != nil {
		panic(err)
	}
	streams := [streamsAtOnce]policies.Policy{make(), make(), make(), make()}
	p, chosen := streams[0], false
	for steps := 0; ; {
		if in.Buffered() == 0 {
			out.Flush()
		}
		var head [5]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			if path, ok := strings.CutPrefix(how, "write "); ok {
				os.WriteFile(path, fmt.Appendf(nil, "%s %t", os.Getenv("OMP_NUM_THREADS"), chosen), 0o644)
			}
			return
		}
		payload := append([]byte(nil), head[:0]...)
		payload = append(payload, readN(in, int(binary.LittleEndian.Uint32(head[:]))-1)...)
		switch head[4] {
		case 'H':
			version, _ := strings.CutPrefix(how, "version=")
			said := map[string]any{"protocol": external.Protocol, "needs": needs, "version": version}
			if many {
				said["streams"] = streamsAtOnce
			}
			text, _ := json.Marshal(said)
			send('H', text)
		case 'S':
			p, chosen = streams[binary.LittleEndian.Uint32(payload)], true
		case 'R':
			var sc struct{ Blocks, Capacity, Steps, Windows, Demand, Updates int }
			if err := json.Unmarshal(payload, &sc); err != nil {
				panic(err)
			}
			if err := p.Reset(&policies.Scope{Blocks: sc.Blocks, Capacity: sc.Capacity, Steps: sc.Steps, Windows: sc.Windows, Demand: sc.Demand, PerStep: sc.Updates}); err != nil {
				panic(err)
			}
		case 'U':
			steps++
			s := readStep(payload, needs)
			if how == "columns" {
				s.Candidates, s.Members, s.Picked = nil, nil, nil
			}
			p.Update(s)
		case 'E':
			n := int(binary.LittleEndian.Uint32(payload))
			var answer []byte
			for _, x := range p.Evict(n, nil) {
				answer = binary.LittleEndian.AppendUint32(answer, uint32(x))
			}
			if steps > 20 {
				switch how {
				case "crash":
					fmt.Fprintln(os.Stderr, "Traceback: division by zero")
					os.Exit(1)
				case "hang":
					time.Sleep(time.Hour)
				case "few":
					fmt.Fprintln(os.Stderr, "the queue is empty")
					answer = answer[:len(answer)-4]
				case "twice":
					answer = append(answer[:len(answer)-4], answer[:4]...)
				case "far":
					answer = binary.LittleEndian.AppendUint32(answer, 1<<30)
				case "odd":
					answer = append(answer, 7)
				case "long":
					var zeros [1 << 20]byte
					answer = append(answer, zeros[:]...)
				case "close":
					os.Stdout.Close()
					time.Sleep(time.Hour)
				case "close input":
					os.Stdin.Close()
					send('V', answer)
					time.Sleep(time.Hour)
				}
			}
			send('V', answer)
		}
	}
}

func readN(r io.Reader, n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		panic(err)
	}
	return b
}

// readStep decodes an update.
func readStep(b []byte, needs []string) *policies.Step {
	number := func() int32 {
		x := int32(binary.LittleEndian.Uint32(b))
		b = b[4:]
		return x
	}
	s := &policies.Step{T: number(), Demand: int(number())}
	lists := []*[]int32{&s.Offered, &s.Hit, &s.Miss, &s.Exit, &s.Pass}
	for _, n := range needs {
		switch n {
		case "candidates?":
			lists = append(lists, &s.Candidates)
		case "scores":
			lists = append(lists, &s.List)
		}
	}
	if strings.Join(needs, " ") == "demand picked candidates?" { // in the order of the protocol
		lists = append(lists[:5], &s.Candidates, &s.Members, &s.Picked)
	}
	for _, l := range lists {
		*l = make([]int32, number())
	}
	for _, l := range lists {
		for i := range *l {
			(*l)[i] = number()
		}
	}
	if len(needs) == 1 && needs[0] == "scores" {
		for range s.List {
			s.Scores = append(s.Scores, math.Float32frombits(uint32(number())))
		}
	}
	if len(b) != 0 || len(s.Picked) != len(s.Members) {
		panic("an update has a wrong length")
	}
	return s
}

// child returns the options of a child that behaves so.
func child(t *testing.T, how string) string {
	t.Helper()
	program, err := os.Executable()
	fatal.If(t, err)
	return "env '" + childVariable + "=" + how + "' " + program
}

// withTimeouts calls try with longer and longer timeouts of a program, until it returns true. A program
// that hangs needs a short one. On a slow machine a short one also ends a program that does not.
func withTimeouts(try func(timeout time.Duration) bool) {
	for timeout := 500 * time.Millisecond; !try(timeout) && timeout < 30*time.Second; timeout *= 4 {
	}
}

type reference struct{ policytest.Ledger }

func (r *reference) Victims(n int, outside []int32) []int32 {
	return policytest.Least(n, outside, r.LastUse)
}

// LRU in another program passes the conformance kit.
func TestConformance(t *testing.T) {
	policytest.Run(t, external.Entry, child(t, "lru"+atOnce), func() policytest.Reference { return new(reference) })
}

// Programs that cannot be used are refused when the command line is read.
func TestRefused(t *testing.T) {
	for how, want := range map[string]string{
		"unknown need": `the program needs "tea", expected candidates`,
		"print":        `it wrote "hello`,
		"exit":         "exit status 3. Its last messages:\nImportError: no module named numpy",
		"version":      `expected {"protocol": 1}`,
	} {
		_, _, err := external.Entry.New(child(t, how))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", how, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                  "the command is missing",
		"timeout=0s x":                      "expected a time of at least 1ms",
		"timeout=soon x":                    "expected a time",
		"'python":                           "close its quotes",
		"/no/such/program here":             "the program does not start: fork/exec /no/such/program: no such file or directory. Check its path",
		"no-such-program":                   "executable file not found in $PATH. Check its path",
		"./external_test.go":                "permission denied. Make it executable (chmod +x)",
		"true":                              "the program ended with exit status 0, expected answers",
		"timeout=500ms " + child(t, "mute"): "the program did not answer within 500ms: raise timeout=",
	} {
		if _, _, err := external.Entry.New(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", text, err, want)
		}
	}
	// The shell reads the greeting before it ends, or the greeting could not be sent.
	const left, want = "sh -c 'sleep 600 & head -c 5 >/dev/null; exit 7'", "the program ended: exit status 7, but a program that it started keeps its output open"
	var err error
	withTimeouts(func(timeout time.Duration) bool {
		_, _, err = external.Entry.New(fmt.Sprintf("timeout=%v %s", timeout, left))
		return err != nil && strings.Contains(err.Error(), want)
	})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%q: %v, expected %q", left, err, want)
	}
}

// run replays a bundled trace with a policy.
func run(t *testing.T, entry policies.Entry, options string) ([]result.Row, error) {
	t.Helper()
	f, err := trace.Open("../../datasets/bundled/smollm2_multi_news_8k.parquet")
	fatal.If(t, err)
	defer f.Close()
	spec, err := policies.NewTable(entry).Parse(entry.Name + ":" + options)
	if err != nil {
		return nil, err
	}
	o := replay.Options{Policies: []policies.Spec{spec}, Per: replay.PerStream}
	o.Shape.BlockTokens = 4
	if o.Capacities, err = replay.ParseCapacities([]string{"1.25x", "2x"}); err != nil {
		t.Fatal(err)
	}
	done, err := replay.Run(t.Context(), f, o)
	if err != nil {
		return nil, err
	}
	return done.Rows, nil
}

// A policy in another program misses as the same policy in Go does, whatever columns it asks for.
func TestSameAsInGo(t *testing.T) {
	for how, entry := range map[string]policies.Entry{"lru": lru.Entry, "columns": lru.Entry, "scores": scoreewma.Entry} {
		want, err := run(t, entry, "")
		fatal.If(t, err)
		for _, how := range []string{how, how + atOnce} {
			got, err := run(t, external.Entry, child(t, how))
			fatal.If(t, err)
			for i := range want {
				if got[i].Misses != want[i].Misses || got[i].Evictions != want[i].Evictions || got[i].Misses == 0 {
					t.Errorf("%s: row %d: %d misses, expected %d", how, i, got[i].Misses, want[i].Misses)
				}
			}
		}
	}
}

// A wrong answer, or none, ends the replay with an error that names the step.
func TestWrongAnswers(t *testing.T) {
	for how, want := range map[string]string{
		"crash": "the program ended: exit status 1. Its last messages:\nTraceback: division by zero",
		"hang":  "the program did not answer within ",
		"few":   "resident). Its last messages:\nthe queue is empty",
		"twice": "which is not resident (or was named twice)",
		"far":   "which does not exist",
		"odd":   "expected 4 for each",
		"long":  "its message V has ",
		"close": "the program closed its standard output and ran on",

		"close input": "the program closed its standard input and ran on",
	} {
		for _, how := range []string{how, how + atOnce} {
			if how == "close input"+atOnce {
				continue // it could leave questions of other streams unanswered
			}
			var rows []result.Row
			var err error
			withTimeouts(func(timeout time.Duration) bool {
				if !strings.HasPrefix(how, "hang") {
					timeout = time.Minute
				}
				rows, err = run(t, external.Entry, fmt.Sprintf("timeout=%v %s", timeout, child(t, how)))
				return err == nil || !strings.Contains(err.Error(), "does not greet")
			})
			if err == nil || rows != nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "step ") && !strings.Contains(err.Error(), "policy named") {
				t.Errorf("%s: %v, expected %q", how, err, want)
			}
		}
	}
}

// A program with another version has another fingerprint, even if it decides alike.
func TestVersion(t *testing.T) {
	fingerprint := func(how string) string {
		spec, err := policies.NewTable(external.Entry).Parse(external.Name + ":" + child(t, how))
		fatal.If(t, err)
		return replay.Fingerprint(spec)
	}
	if one, two := fingerprint("version=1"), fingerprint("version=2"); one == two {
		t.Errorf("both versions have the fingerprint %s", one)
	}
}

// Children end by themselves when their input ends. They have one thread each.
func TestGracefulEnd(t *testing.T) {
	for how, want := range map[string]string{"": "1 false", atOnce: "1 true"} { // the second one served several streams
		file := filepath.Join(t.TempDir(), "end")
		defer external.SetGrace(time.Minute)()
		if _, err := run(t, external.Entry, child(t, "write "+file+how)); err != nil {
			t.Fatal(err)
		}
		external.StopAll()
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("the child wrote %q, expected %q: %v", text, want, err)
		}
	}
}

// No child is left after its policy failed, and after StopAll.
func TestNoChildIsLeft(t *testing.T) {
	mark := "KVREPLAY_TEST_PARENT=" + strconv.Itoa(os.Getpid())
	t.Setenv("KVREPLAY_TEST_PARENT", strconv.Itoa(os.Getpid())) // other tests may run at once
	for _, how := range []string{"mute", "crash", "lru"} {
		_, _, _ = external.Entry.New("timeout=500ms " + child(t, how))
	}
	external.StopAll()
	left, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(left) == 0 {
		t.Skip("no /proc here")
	}
	for _, path := range left {
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, []byte(childVariable+"=")) && bytes.Contains(text, []byte(mark+"\x00")) {
			out, _ := exec.Command("cat", filepath.Join(filepath.Dir(path), "status")).Output()
			t.Errorf("%s is left:\n%s", path, out)
		}
	}
}
