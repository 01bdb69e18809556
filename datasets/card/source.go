package card

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/locality"
)

// source is a trace, measured.
type source struct {
	path, name string // name without folder
	bytes      int64
	digest     string
	meta       *trace.Meta
	part       string // the note of that name, else the file's stem
	selector   string // with its parameters, "quest:page=8"; empty where not stated
	columns    []string
	streams    []stream
}

// stream is one stream with what was counted of it.
type stream struct {
	source *source
	info   trace.StreamInfo
	task   string
	facts  facts
}

// noteSeparator joins the values of a note that several sources state.
const noteSeparator = "; "

// noteOf is a note with each of its values once.
func noteOf(m *trace.Meta, key string) string {
	var values []string
	for _, v := range strings.Split(m.Notes[key], noteSeparator) {
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return strings.Join(values, noteSeparator)
}

// exact is the selector that the others imitate.
const exact = "exact"

// readSource opens and measures the trace at path.
func readSource(ctx context.Context, path string) (*source, error) {
	f, err := trace.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &source{path: path, name: filepath.Base(path), meta: f.Meta()}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s.bytes = info.Size()
	if s.digest, err = f.Digest(); err != nil {
		return nil, err
	}
	stem := strings.TrimSuffix(s.name, ".parquet")
	if s.part = s.meta.Notes["part"]; s.part == "" {
		s.part = stem
	}
	s.selector = selectorName(s.meta)
	s.listColumns(f)
	if len(f.Streams()) == 0 {
		return nil, fmt.Errorf("%s: the trace has no streams, expected some", path)
	}
	for _, i := range f.Streams() {
		if err := replay.CheckContext(f.Meta(), &i); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		s.streams = append(s.streams, stream{source: s, info: i, task: taskOf(s.meta.Notes["task"], i.Request, stem)})
	}
	if err := s.measure(ctx, f); err != nil {
		return nil, err
	}
	return s, s.replay(ctx, f)
}

func (s *source) listColumns(f *trace.File) {
	for _, c := range []struct {
		has  bool
		name string
	}{{true, "indices"}, {f.HasScores(), "scores"}, {f.HasCoveredMass(), "covered mass"}, {f.HasAttentionMass(), "attention mass"}, {f.HasPromptMass(), "prompt mass"}, {f.HasPredicted(), "predictions"}} {
		if c.has {
			s.columns = append(s.columns, c.name)
		}
	}
}

// selectorName is the selector with the parameters that the notes "selector.*" state.
func selectorName(m *trace.Meta) string {
	var options []string
	for key, value := range m.Notes {
		if name, ok := strings.CutPrefix(key, "selector."); ok {
			options = append(options, name+"="+value)
		}
	}
	if len(options) == 0 {
		return m.Selector
	}
	slices.Sort(options)
	return m.Selector + ":" + strings.Join(options, ",")
}

// taskOf is the task of a request: of those that the note lists the longest that the
// request's id begins with, after "ruler-" where it has that; the one that is listed
// alone; or the file's stem.
func taskOf(note, request, stem string) string {
	tasks := strings.Split(note, noteSeparator)
	best := ""
	for _, t := range tasks {
		if strings.HasPrefix(strings.TrimPrefix(request, "ruler-"), t+"-") && len(t) > len(best) {
			best = t
		}
	}
	switch {
	case best != "":
		return best
	case note != "" && len(tasks) == 1:
		return note
	}
	return stem
}

// measure counts what lists say, stream after stream.
func (s *source) measure(ctx context.Context, f *trace.File) error {
	columns := trace.Columns(0)
	if f.HasCoveredMass() {
		columns |= trace.ReadMasses
	}
	if f.HasPredicted() {
		columns |= trace.ReadPredicted
	}
	reader := f.NewReader(columns)
	defer reader.Close()
	analyzer := locality.New(s.meta, s.meta.TopK)
	var lists trace.Stream
	var marks marker
	for i := range s.streams {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		if err := reader.Read(i, &lists); err != nil {
			return err
		}
		counts := &s.streams[i].facts
		counts.streams = 1
		counts.locality.Add(analyzer.Stream(&lists))
		counts.lists(&lists, s.meta, &marks)
	}
	return nil
}

// lists counts ranks that stay, covered mass and predictions of a stream.
func (f *facts) lists(s *trace.Stream, m *trace.Meta, marks *marker) {
	if m.Order == trace.OrderRank {
		f.next, f.from = make([]int64, m.Candidates), make([]int64, m.Candidates)
	}
	for i := s.Windows; i < s.Rows; i++ {
		if len(s.CoveredMass) > 0 {
			f.covered += float64(s.CoveredMass[i])
			f.massRows++
		}
		demand := demandOf(s, i, m.TopK)
		marks.set(demand, m.Blocks(s.MaxSeqLen()))
		if len(s.PredictedOffsets) > 0 && len(s.PredictedList(i)) > 0 {
			f.predictedHits += marks.count(s.PredictedList(i))
			f.predictedOf += int64(len(demand))
		}
		if i == s.Windows || f.next == nil {
			continue
		}
		for r, x := range s.List(i - 1) {
			f.from[r]++
			if marks.has(x) {
				f.next[r]++
			}
		}
	}
}

func demandOf(s *trace.Stream, row, k int) []int32 {
	list := s.List(row)
	return list[:min(k, len(list))]
}

// marker is a set of blocks that is emptied in no time.
type marker struct {
	round []int
	now   int
}

// set makes the set the given blocks, of n that there are.
func (m *marker) set(blocks []int32, n int) {
	if len(m.round) < n {
		m.round = append(m.round, make([]int, n-len(m.round))...)
	}
	m.now++
	for _, x := range blocks {
		m.round[x] = m.now
	}
}

func (m *marker) has(x int32) bool { return m.round[x] == m.now }

func (m *marker) count(blocks []int32) (n int64) {
	for _, x := range blocks {
		if m.has(x) {
			n++
		}
	}
	return n
}
