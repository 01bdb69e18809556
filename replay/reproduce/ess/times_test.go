package ess

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

var update = flag.Bool("update", false, "write the timetables anew, fitted to all of the synthetic traces")

// The timetables in this folder, which README.md prices with, are those of the fit. They reproduce
// Table 2, but not with a link of half the rate.
func TestTimetables(t *testing.T) {
	b := begin(t, reproduce.Inputs{Short: !*update})
	at := map[int]*model{short: b.newModel(short), long: b.newModel(long)}
	if *update {
		writeTimetables(t, b, at)
	}
	for _, r := range b.table2 {
		if r.accept == 3.4 {
			continue
		}
		text, err := os.ReadFile(timetableFile(r.mtp))
		if err != nil {
			t.Fatal(err)
		}
		p := at[r.context].pricedWith(r, string(text), schedule)
		const shorter = 0.005 // traces here have fewer steps than those of the fit
		if e := gpus*p.Tokens/r.throughput - 1; math.Abs(e) > 0.05+shorter {
			t.Errorf("%v: %+.1f %% of the printed throughput with %s", r.Row, 100*e, timetableFile(r.mtp))
		}
	}
	b.machine.Link.HostToDevice.Kernel.Regimes[0].Rate.Value /= 2
	b.blind(at[short])
	if reproduce.Past([]reproduce.Section{b.Section("table-2-unseen").Finish()}) == nil {
		t.Error("a link of half the rate is not noticed in Table 2")
	}
}

// The timetables have the constants that REPRODUCTION.md states. Another test keeps the report
// current, so a change that moves the fit must change both.
func TestTimetablesOfTheReport(t *testing.T) {
	report, err := os.ReadFile("../../REPRODUCTION.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(report), `<a id="ess-table-2"></a>`)
	section, _, _ = strings.Cut(section, "<a id=")
	stated := func(context int, what string) float64 {
		m := regexp.MustCompile(fmt.Sprintf(`computation of a step at %dK, %s = ([0-9.]+) ms`, context>>10, what)).FindStringSubmatch(section)
		if m == nil {
			if what == "a request" {
				return 0
			}
			t.Fatalf("REPRODUCTION.md states no constant of %q at %dK", what, context>>10)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v / 1e3
	}
	const layers = 61
	for mtp, contexts := range map[int][]int{2: {short, long}, 4: {short}} {
		text, err := os.ReadFile(timetableFile(mtp))
		if err != nil {
			t.Fatal(err)
		}
		table, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, context := range contexts {
			at := map[string]float64{} // seconds of a step by query tokens
			for _, r := range table[1:] {
				v, err := strconv.ParseFloat(r[3], 64)
				if err != nil {
					t.Fatal(err)
				}
				if r[2] == strconv.Itoa(context) {
					at[r[1]] += layers * v / 1e6
				}
			}
			want := step{stated(context, "fixed"), stated(context, "a query token"), stated(context, "a request")}
			for queries, want := range map[string]float64{"0": want.fixed, strconv.Itoa(most): want.fixed + most*(want.slope+want.request/float64(mtp))} {
				if math.Abs(at[queries]/want-1) > 1e-5 {
					t.Errorf("%s: a step of %s query tokens at %dK takes %.4f ms, by REPRODUCTION.md %.4f ms; go test ./replay/reproduce/ess -run Timetables -update fits the tables anew", timetableFile(mtp), queries, context>>10, 1e3*at[queries], 1e3*want)
				}
			}
		}
	}
}

func timetableFile(mtp int) string {
	return map[int]string{2: "times-mtp2.csv", 4: "times-mtp4.csv"}[mtp]
}

func writeTimetables(t *testing.T, b *bench, at map[int]*model) {
	t.Helper()
	steps := map[int]step{}
	for context, cells := range b.calibration() {
		f, err := fit(at[context].errors(cells), start[:len(cells)])
		if err != nil {
			t.Fatal(err)
		}
		steps[context] = stepOf(f.at)
	}
	for mtp, steps := range map[int]map[int]step{2: steps, 4: {short: steps[short]}} {
		if err := os.WriteFile(timetableFile(mtp), []byte(b.timetable(mtp, steps)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
