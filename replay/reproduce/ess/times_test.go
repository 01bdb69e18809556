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

// models are those of both contexts.
func models(t *testing.T, in reproduce.Inputs) (*study, map[int]*model) {
	t.Helper()
	s, err := newStudy(t.Context(), in, library(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	at := map[int]*model{}
	for context := range named {
		if at[context], err = s.newModel(context); err != nil {
			t.Fatal(err)
		}
	}
	return s, at
}

// The timetables beside this file, which README.md prices with, are those that the fit
// gives: Table 2 comes out of them. And not out of a link of half the rate.
func TestTimetables(t *testing.T) {
	s, at := models(t, reproduce.Inputs{Short: !*update})
	if *update {
		writeTimetables(t, s, at)
	}
	for i := range table2 {
		r := &table2[i]
		if r.accept == 3.4 {
			continue
		}
		text, err := os.ReadFile(timetableFile(r.mtp))
		if err != nil {
			t.Fatal(err)
		}
		p, err := at[r.context].pricedWith(r, string(text), schedule)
		if err != nil {
			t.Fatal(err)
		}
		const shorter = 0.005 // for traces of fewer steps than those that were fitted to
		if e := gpus*p.Tokens/r.throughput - 1; math.Abs(e) > tableGate+shorter {
			t.Errorf("%v: %+.1f %% of the printed throughput with %s", r, 100*e, timetableFile(r.mtp))
		}
	}
	s.machine.Link.HostToDevice.Kernel.Regimes[0].Rate.Value /= 2
	section, err := s.blind(at[short])
	if err != nil {
		t.Fatal(err)
	}
	if len(past([]reproduce.Section{*section})) == 0 {
		t.Error("a link of half the rate is not noticed in Table 2")
	}
}

// The timetables have the constants that REPRODUCTION.md states, which a test of the report
// holds current: a change that moves the fit moves both.
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
			at := map[string]float64{} // seconds of a step, by query tokens
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

func writeTimetables(t *testing.T, s *study, at map[int]*model) {
	t.Helper()
	of := map[int]step{}
	for context, cells := range named {
		f, err := fit(at[context].errors(cells), start[:len(cells)])
		if err != nil {
			t.Fatal(err)
		}
		of[context] = stepOf(f.at)
	}
	for mtp, of := range map[int]map[int]step{2: of, 4: {short: of[short]}} {
		text, err := s.timetable(mtp, of)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(timetableFile(mtp), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
