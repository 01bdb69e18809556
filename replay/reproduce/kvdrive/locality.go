package kvdrive

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/kvreplay/kvreplay/metrics/render/chart"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/trace"
)

// windows holds Fig. 3.
func (s *study) windows() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-3", Covers: []string{"Fig. 3"}, Title: "Figure 3: critical KV windows",
		Method: "Policies window:0 to window:4 of kvreplay replay on the traces of exact selection at about the paper's budgets: entries moved, of those demanded. ×0 moves all of the demand, but for tokens that have just left the local window."}
	var lines []chart.Line
	names := []string{"window:0", "window:1", "window:2", "window:3", "window:4"}
	for _, c := range []struct {
		text   string
		budget float64
	}{{"1.56 %", small}, {"6.25 %", large}} {
		files := s.exactNear(c.budget)
		if len(files) == 0 {
			section.Lines = append(section.Lines, noTrace("exact selection at "+c.text+" of the context"))
			continue
		}
		pooled, err := s.counts(files, names, nil)
		if err != nil {
			return section, err
		}
		section.Method += fmt.Sprintf(" %s: %s.", c.text, namesOf(files))
		before, line := 1., chart.Line{Name: c.text}
		for i, name := range names {
			n := pooled[name]
			share := float64(n.misses) / float64(n.demand)
			line.Points = append(line.Points, plotter.XY{X: float64(i), Y: share})
			if i == 0 {
				section.Lines = append(section.Lines, reproduce.Compare(reproduce.SelfCheck, c.text+": share of the demand that ×0 moves", "%",
					reproduce.Reference(100, "the definition of ×0, which keeps nothing between steps"), 100*share, reproduce.Gate{Relative: 0.02}))
				continue
			}
			section.Lines = append(section.Lines, reproduce.Statement(fmt.Sprintf("%s: ×%d moves less than ×%d; of ×0", c.text, i, i-1), "%", 100*share, share < before))
			before = share
			if i == 3 && c.budget == large {
				l := reproduce.Statement(c.text+": ×3 moves less than 12.5 of ×0's 500 MB", "% of ×0", 100*share, share < 12.5/500)
				section.Lines = append(section.Lines, l.Unless(about(files...)+"; 2.5 % reloaded would need 97.5 % of a step's demand in the last three"))
			}
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return section, nil
	}
	err = section.Draw("kvdrive-fig-3", "Share of the demand that windows ×0 to ×4 move, at two budgets, on our traces", &chart.Chart{Title: "Entries moved by window", X: "window, steps", Y: "share of the demand", Lines: lines, Ticks: chart.Ticks(0, 1, 2, 3, 4)})
	return section, err
}

// reuse holds Fig. 7.
func (s *study) reuse() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "fig-7", Covers: []string{"Fig. 7"}, Title: "Figure 7: what is ranked high stays critical",
		Method: "Of the entries at each quarter of K, and of the ranks K to M, the share that is in the Top-K of the next step; counted in the lists of all traces of exact selection that are in rank order."}
	files := s.which(func(f *source) bool { return f.selector == "exact" && f.ranked() })
	if len(files) == 0 {
		section.Lines = append(section.Lines, noTrace("exact selection in rank order with M > K"))
		return section, nil
	}
	section.Method += " " + namesOf(files) + "."
	var kept, all [5]int64
	chance := 0.
	for _, f := range files {
		if err := stays(f, &kept, &all); err != nil {
			return section, err
		}
		chance = max(chance, f.budget)
	}
	share := func(i int) float64 { return 100 * float64(kept[i]) / float64(all[i]) }
	names := [5]string{"1 to K/4", "K/4 to K/2", "K/2 to 3K/4", "3K/4 to K", "K to M"}
	line := chart.Line{Name: "in the next Top-K"}
	for i := range names {
		line.Points = append(line.Points, plotter.XY{X: (float64(i) + 0.5) / 4, Y: share(i) / 100})
		if i > 0 {
			section.Lines = append(section.Lines, reproduce.Statement(fmt.Sprintf("ranks %s are in the next Top-K less often than %s; the former", names[i], names[i-1]), "%", share(i), share(i) < share(i-1)))
		}
	}
	section.Lines = append(section.Lines,
		reproduce.Statement("most of ranks 1 to K/4 are", "%", share(0), share(0) > 50),
		reproduce.Statement("ranks K to M more than twice as often as any token would be by chance (K of the context)", "%", share(4), share(4) > 200*chance))
	err = section.Draw("kvdrive-fig-7", "Share of entries that are in the Top-K of the next step, by their rank, on our traces", &chart.Chart{Title: "What stays critical, by rank", X: "rank ÷ K", Y: "share in the next Top-K", Lines: []chart.Line{line}})
	return section, err
}

// stays counts, by part of the ranking, the entries of each step and those of them that
// are in the Top-K of the next.
func stays(f *source, kept, all *[5]int64) error {
	r := f.NewReader(trace.TrustLists)
	defer r.Close()
	k := f.Meta().TopK
	next := map[int32]bool{}
	for i := range f.Streams() {
		var stream trace.Stream
		if err := r.Read(i, &stream); err != nil {
			return err
		}
		list := func(row int) []int32 { return stream.Indices[stream.Offsets[row]:stream.Offsets[row+1]] }
		for row := 0; row+1 < len(stream.Steps); row++ {
			if stream.Steps[row+1] != stream.Steps[row]+1 {
				continue
			}
			clear(next)
			for n, x := range list(row + 1) {
				if n < k {
					next[x] = true
				}
			}
			for n, x := range list(row) {
				part := min(4, 4*n/k)
				all[part]++
				if next[x] {
					kept[part]++
				}
			}
		}
	}
	return nil
}

// method is a row of Table 3 with its printed hit rates, %: Llama-3-8B, Qwen3-8B and
// Phi-4-mini, LRU and lookahead.
type method struct {
	selector, name string
	printed        [3][2]float64
}

var methods = []method{
	{"quest", "Quest", [3][2]float64{{89.2, 90.1}, {89.7, 91.0}, {90.7, 88.9}}},
	{"shadowkv", "ShadowKV", [3][2]float64{{84.2, 87.3}, {81.0, 83.2}, {86.1, 84.6}}},
	{"retroinfer", "RetroInfer", [3][2]float64{{80.7, 82.0}, {70.0, 73.9}, {78.3, 80.1}}},
	{"kvdrive", "KVDrive", [3][2]float64{{80.0, 81.5}, {77.5, 79.0}, {78.0, 81.0}}},
}

// gains are the printed hit rates, as words.
func (m *method) gains() string {
	return fmt.Sprintf("%.1f → %.1f, %.1f → %.1f, %.1f → %.1f", m.printed[0][0], m.printed[0][1], m.printed[1][0], m.printed[1][1], m.printed[2][0], m.printed[2][1])
}

// lookahead holds Table 3.
func (s *study) lookahead() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "table-3", Covers: []string{"Table 3"}, Title: "Table 3: lookahead eviction against LRU",
		Method: "kvreplay replay --policy lru, lookahead at --capacity 2x, window 2, on the traces of each selector, whose lists have M > K. The paper's traces, 120K tokens of three larger models with K = 2048 and M = 2560, are not public, so that signs and order alone are judged.",
		Contradictions: []string{
			"ShadowKV on Llama-3-8B goes from 84.2 to 87.3, which is 3.1 points; printed is +2.9. RetroInfer on Phi-4-mini goes from 78.3 to 80.1, 1.8; printed is +1.9.",
		}}
	hits := map[string]float64{}
	var bars []chart.Bar
	for i := range methods {
		m := &methods[i]
		files := s.which(func(f *source) bool {
			name, _, _ := strings.Cut(f.selector, ":")
			return name == m.selector && f.selector != "quest:page=8" && f.ranked()
		})
		if len(files) == 0 {
			section.Lines = append(section.Lines, reproduce.Absent(m.name+": lookahead hits more than LRU", "points", reproduce.Target{}, "needs traces of this selector with M > K. Name some with --traces"))
			continue
		}
		pooled, err := s.counts(files, []string{"lru", "lookahead"}, []string{"2x"})
		if err != nil {
			return section, err
		}
		lru, ahead := 100*pooled["lru"].hit(), 100*pooled["lookahead"].hit()
		hits[m.selector] = lru
		l := reproduce.Statement(fmt.Sprintf("%s: lookahead hits more than LRU (printed %s)", m.name, m.gains()), "points", ahead-lru, ahead > lru)
		l.Note = fmt.Sprintf("ours: %.1f to %.1f %%", lru, ahead)
		section.Lines = append(section.Lines, l.Unless(fmt.Sprintf("ours: %.1f to %.1f %%; %s: ranks near K are noise, and recency says more than the current ranking", lru, ahead, about(files...))))
		bars = append(bars, chart.Bar{Name: m.name, Values: []float64{lru / 100, ahead / 100}})
	}
	if err := s.order(&section, hits); err != nil || len(bars) == 0 {
		return section, err
	}
	err = section.Draw("kvdrive-table-3", "Hit rates of LRU and of lookahead eviction by selector, on our traces", &chart.Chart{Title: "Hit rate, cache of 2x", Y: "share of the demand", Bars: bars, Series: []string{"LRU", "lookahead"}})
	return section, err
}

// order adds who has the higher hit rate.
func (s *study) order(section *reproduce.Section, hits map[string]float64) error {
	const coarse = "selections of pages and clusters are of different sizes on short contexts"
	for _, pair := range [][2]int{{0, 1}, {1, 2}} {
		a, b := methods[pair[0]], methods[pair[1]]
		if hits[a.selector] > 0 && hits[b.selector] > 0 {
			l := reproduce.Statement(fmt.Sprintf("%s's hit rate is above %s's, LRU", a.name, b.name), "points", hits[a.selector]-hits[b.selector], hits[a.selector] > hits[b.selector])
			section.Lines = append(section.Lines, l.Unless(coarse))
		}
	}
	return nil
}

// warmUp holds section 7.1.
func (s *study) warmUp() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "warm-up", Title: "Section 7.1: importance-guided warm-up",
		Method: "kvreplay replay --policy lru --capacity 2x with --warmup importance:32, the scores of the last 32 prompt queries, against --warmup cold and lru:32: misses of all decode steps, on traces that have scores of prompt windows."}
	files := s.which(func(f *source) bool { return f.selector == "exact" && f.HasScores() && f.Streams()[0].Windows >= 32 })
	if len(files) == 0 {
		section.Lines = append(section.Lines, noTrace("exact selection with scores of 32 prompt windows"))
		return section, nil
	}
	for _, f := range files {
		misses := map[string]float64{}
		for _, text := range []string{"importance:32", "cold", "lru:32"} {
			o, err := options([]string{"lru"}, []string{"2x"})
			if err != nil {
				return section, err
			}
			if o.Warmup, err = replay.ParseWarmup(text); err != nil {
				return section, err
			}
			rows, err := s.rows(f, o)
			if err != nil {
				return section, err
			}
			for i := range rows {
				misses[text] += float64(rows[i].Misses)
			}
		}
		cold, lru := misses["importance:32"]/misses["cold"], misses["importance:32"]/misses["lru:32"]
		l := reproduce.Statement(f.name+": misses fewer than a cold start; of its misses", "%", 100*cold, cold < 1)
		l.Note = fmt.Sprintf("%.1f %% of the misses of ESS's LRU-Warmup, which KVDrive does not compare with", 100*lru)
		section.Lines = append(section.Lines, l)
	}
	return section, nil
}
