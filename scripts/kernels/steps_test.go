package kernels_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

var update = flag.Bool("update", false, "rewrite STEPS.md")

// predictions are the SHA-256 of the committed predictions. They are older than the measurements.
var predictions = map[string]string{
	"h100": "3e035c4e29683fc3cbcf50431db5f95a51921a09e64e20dd8815c53e81125bb3",
	"h200": "0402da3099a12e23e088e34a53923397c0b29d2e8894a5abe8de909e09d61719",
}

// step is a measured step with its predictions, in µs.
type step struct {
	mode, batch, context, misses string
	measured                     float64
	before, low, high            float64 // predicted before the measurement, 0 if nothing fits
	today, vm                    float64 // by the program of today, with the machine's link and with that of the virtual machine
}

// STEPS.md has the measured steps next to the predictions that are older, and next to those of today.
func TestSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("runs kvreplay many times")
	}
	needPython(t)
	program, folder := build(t), t.TempDir()
	old := read(t, "STEPS.md")
	head, _, found := strings.Cut(old, "<!-- steps:")
	if !found {
		t.Fatal("STEPS.md lacks the line that begins with <!-- steps:")
	}
	page := head + "<!-- steps: go test ./scripts/kernels -run Steps -update rewrites the rest -->\n"
	var all []step
	var tables string
	for _, gpu := range []string{"h200", "h100"} {
		list := steps(t, program, folder, gpu)
		all = append(all, list...)
		tables += "\n## " + strings.ToUpper(gpu) + "\n\n" + stepsTable(list)
	}
	page += "\n## Summary\n\n" + summaryTable(all) + tables
	if *update {
		fatal.If(t, os.WriteFile("STEPS.md", []byte(page), 0o644))
	} else if page != old {
		t.Error("STEPS.md is not current: run go test ./scripts/kernels -run Steps -update")
	}
}

// steps returns the measured steps of a GPU. The folder keeps the traces that predict.py makes.
func steps(t *testing.T, program, folder, gpu string) (list []step) {
	predict := func(args ...string) [][]string {
		return records(t, run(t, "python3", append([]string{"predict.py", "--hardware", gpu, "--kvreplay", program, "--folder", folder}, args...)...))
	}
	path := filepath.Join("testdata", "predictions-"+gpu+".csv")
	text := read(t, path)
	if fmt.Sprintf("%x", sha256.Sum256([]byte(text))) != predictions[gpu] {
		t.Errorf("%s has changed: restore it, and write new predictions to another file", path)
	}
	before, today := records(t, text), predict(path)
	checkPredictions(t, today, before)
	vm := predict(filepath.Join("testdata", gpu, "steps.csv"), "--link", "pcie5-x16-vm")
	for _, row := range vm[1:] {
		at := slices.IndexFunc(before, func(b []string) bool { return slices.Equal(b[:7], row[:7]) })
		if at < 0 {
			t.Fatalf("%s: no prediction of %v", gpu, row[:7])
		}
		list = append(list, step{mode: row[0], batch: row[3], context: row[4], misses: row[6], measured: number(t, row[11]),
			before: number(t, before[at][8]), low: number(t, before[at][9]), high: number(t, before[at][10]),
			today: number(t, today[at][8]), vm: number(t, row[8])})
	}
	return list
}

// checkPredictions compares the commands of today with the committed ones. Those are older than the
// measurements, so their figures stay.
func checkPredictions(t *testing.T, today, before [][]string) {
	t.Helper()
	if len(today) != len(before) {
		t.Fatalf("%d predictions, expected %d", len(today), len(before))
	}
	for i, row := range today {
		if !slices.Equal(row[:8], before[i][:8]) {
			t.Errorf("line %d is %q, expected %q", i+1, row[:8], before[i][:8])
		}
		if i == 0 || row[8] == "" {
			continue
		}
		if us, low, high := number(t, row[8]), number(t, row[9]), number(t, row[10]); low >= us || us >= high {
			t.Errorf("line %d: %v µs is not between %v and %v", i+1, us, low, high)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && text != "" {
		t.Fatal(err)
	}
	return v
}

func stepsTable(list []step) string {
	var b strings.Builder
	b.WriteString("| step | batch | context | misses | measured ms | before | error | in ± | today | error | VM's link | error |\n")
	b.WriteString("| --- | ---:| ---:| ---:| ---:| ---:| ---:| --- | ---:| ---:| ---:| ---:|\n")
	for _, s := range list {
		in := "no"
		if s.low <= s.measured && s.measured <= s.high {
			in = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.2f | %.2f | %+.1f %% | %s | %.2f | %+.1f %% | %.2f | %+.1f %% |\n", s.mode, s.batch, s.context, s.misses,
			s.measured/1e3, s.before/1e3, 100*(s.before/s.measured-1), in, s.today/1e3, 100*(s.today/s.measured-1), s.vm/1e3, 100*(s.vm/s.measured-1))
	}
	return b.String()
}

func summaryTable(all []step) string {
	var b strings.Builder
	b.WriteString("| step | steps | before: median | worst | in ± | today: median | worst | VM's link: median | worst |\n")
	b.WriteString("| --- | ---:| ---:| ---:| ---:| ---:| ---:| ---:| ---:|\n")
	for _, mode := range []string{"dense", "offloaded", "transformers", "transformers-offloaded"} {
		var errors [3][]float64
		within := 0
		for _, s := range all {
			if s.mode != mode {
				continue
			}
			for i, v := range []float64{s.before, s.today, s.vm} {
				errors[i] = append(errors[i], 100*math.Abs(v/s.measured-1))
			}
			if s.low <= s.measured && s.measured <= s.high {
				within++
			}
		}
		fmt.Fprintf(&b, "| %s | %d |", mode, len(errors[0]))
		for i := range errors {
			slices.Sort(errors[i])
			n := len(errors[i])
			fmt.Fprintf(&b, " %.1f %% | %.1f %% |", (errors[i][(n-1)/2]+errors[i][n/2])/2, errors[i][n-1])
			if i == 0 {
				fmt.Fprintf(&b, " %d of %d |", within, n)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
