package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/render"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// resultsFolder holds the rows that are read if none are named.
const resultsFolder = "results"

// orResults returns the paths, or the results folder if there are none.
func orResults(paths []string) []string {
	if len(paths) == 0 {
		return []string{resultsFolder}
	}
	return paths
}

// results are the rows that the conditions select. They were read one at a time, or are in memory.
type results struct {
	starts     *board.Starts
	heat       []result.Row       // of heat maps
	corpus     string             // the version and part of the corpus that the rows are of, empty for other traces
	incomplete *result.Incomplete // nil if the folders have all requested cells
	files      *result.Files      // of rows that were read one at a time, else nil
	rows, all  []result.Row       // in memory: the selected rows, and all
	where      result.Where
}

// readResults reads the rows of all paths, or of the results folder if there are none, and
// keeps those that the conditions select. from has the files of the paths if they were read before.
func readResults(ctx context.Context, paths []string, where result.Where, from *result.Files) (s *results, err error) {
	s = &results{where: where}
	requested, err := readRequested(paths)
	if err != nil {
		return s, err
	}
	if from != nil {
		s.all, err = unlessStopped(ctx, from.All)
	} else {
		s.all, err = readAllRows(ctx, paths)
	}
	if none := result.FindIncomplete(requested, nil, s.where); errors.Is(err, result.ErrNoRows) && none != nil {
		return s, none
	}
	if err != nil {
		return s, err
	}
	s.incomplete = result.FindIncomplete(requested, s.all, s.where)
	s.all = result.WithoutOutdated(requested, s.all)
	if s.rows, err = s.where.Filter(s.all); err != nil {
		return s, cmp.Or(errorOf(s.incomplete), fmt.Errorf("--where: %w", err))
	}
	if len(s.rows) == 0 {
		return s, errorOf(s.incomplete)
	}
	return s, nil
}

// choose keeps the rows of the part of the corpus that --split names, and finds those of heat maps.
func (s *results) choose(of choice) error {
	digests := map[string]string{}
	for i := range s.rows {
		digests[s.rows[i].Trace] = s.rows[i].TraceDigest
	}
	if part := digestsOf(of.split); part != nil {
		latest := corpus.Latest()
		for _, name := range latest.Part(of.split) {
			if digests[name] != part[name] {
				return fmt.Errorf("--split %s: the rows lack %s of corpus version %d: run make leaderboard, or remove --split", of.split, name, latest.Number)
			}
		}
		s.rows = slices.DeleteFunc(slices.Clone(s.rows), func(r result.Row) bool { return part[r.Trace] == "" })
		digests = part
	}
	s.corpus, s.starts = corpusName(digests), board.StartsOf(s.rows)
	if of.heat {
		s.heat = slice.Filter(s.rows, func(r result.Row) bool { return isHeat(&r) })
	}
	return nil
}

// corpusName returns the text of a board for the part of the corpus with these digests, empty without one.
func corpusName(digests map[string]string) string {
	v, part := corpus.Find(digests)
	if v == nil {
		return ""
	}
	return fmt.Sprintf("version %d, %s", v.Number, part)
}

// boards returns the boards of the warmed and of the cold rows. An only board has no title.
func (s *results) boards(o board.Options) (boards []render.PageBoard, err error) {
	o.Incomplete, o.Corpus = s.incomplete, s.corpus
	warmed, cold := result.SplitCold(s.heat)
	for _, p := range []render.PageBoard{{Title: "Warmed caches", Rows: warmed}, {Title: "Cold starts", Suffix: "-cold", Rows: cold}} {
		if p.Board, err = s.starts.Board(p.Suffix != "", o); err != nil {
			return nil, err
		}
		if p.Board != nil {
			boards = append(boards, p)
		}
	}
	if len(boards) == 1 {
		boards[0].Title, boards[0].Suffix = "", ""
	}
	return boards, nil
}

// collectedBoard is a board, and the rows of its heat maps.
type collectedBoard struct {
	board.Collector
	heat     []result.Row // by layer or stream, summed over requests
	cells    map[heatKey]*heatCell
	cell     *heatCell      // of the last row, nil if it is unknown
	requests map[string]int // from 0, in the order of rows
}

type heatKey struct{ trace, policy, capacity string }

// heatCell finds the rows of a cell's heat map.
type heatCell struct {
	details map[int32]detail // of each layer
	parts   map[stream]*heatPart
}

// detail is a level of detail of a layer's rows: by head or not, by request or pooled.
type detail struct{ byHead, byRequest bool }

type stream struct{ layer, head int32 }

// heatPart is the place of a sum in collectedBoard.heat, and a bit for each request in it.
type heatPart struct {
	at   int
	seen big.Int
}

// isHeat reports whether a row is of a layer or stream of the GPU's cache, as heat maps need.
func isHeat(r *result.Row) bool { return r.LayerID != nil && r.Tier == 0 }

// addHeat adds a row if heat maps need it. same is true if it is known to be of the cell of the row
// before. The error is board.ErrNotCollected for a repeated part, and for two levels of detail of a
// layer, which all rows together tell apart.
func (c *collectedBoard) addHeat(r *result.Row, same bool) error {
	if !same {
		c.cell = nil
	}
	if !isHeat(r) {
		return nil
	}
	if c.cell == nil {
		c.cell = c.heatCell(heatKey{r.Trace, r.Policy, optional.Or(r.Capacity, "")})
	}
	layer, d := *r.LayerID, detail{r.Head != nil, r.RequestID != nil}
	if known, ok := c.cell.details[layer]; ok && known != d {
		return board.ErrNotCollected
	}
	c.cell.details[layer] = d
	request := c.request(optional.Or(r.RequestID, ""))
	of := stream{layer, optional.Or(r.Head, trace.NoHead)}
	p := c.cell.parts[of]
	if p == nil {
		p = &heatPart{at: len(c.heat)}
		c.cell.parts[of], c.heat = p, append(c.heat, *r)
	} else if p.seen.Bit(request) == 1 {
		return board.ErrNotCollected
	} else {
		c.heat[p.at].Misses += r.Misses
		c.heat[p.at].Demand += r.Demand
	}
	p.seen.SetBit(&p.seen, request, 1)
	return nil
}

func (c *collectedBoard) heatCell(k heatKey) *heatCell {
	if c.cells == nil {
		c.cells = map[heatKey]*heatCell{}
	}
	if c.cells[k] == nil {
		c.cells[k] = &heatCell{map[int32]detail{}, map[stream]*heatPart{}}
	}
	return c.cells[k]
}

// request returns the number of a request.
func (c *collectedBoard) request(id string) int {
	n, known := c.requests[id]
	if !known {
		if c.requests == nil {
			c.requests = map[string]int{}
		}
		n = len(c.requests)
		c.requests[id] = n
	}
	return n
}

// choice is the rows that boards, comparisons and heat maps are made of.
type choice struct {
	where result.Where
	split corpus.Split
	heat  bool // heat maps are needed
	alone bool // heat maps are needed, and no cells
}

// useResults returns use of results, and the results. It reads rows one at a time if it can. Otherwise
// it reads all rows, and errors are those of the second use.
func useResults[T any](ctx context.Context, paths []string, of choice, use func(*results) (T, error)) (made T, s *results, err error) {
	type all struct {
		made  T
		from  *results
		files *result.Files
	}
	b, err := unlessStopped(ctx, func() (b all, err error) {
		if b.files, err = result.NewFiles(orResults(paths)...); err != nil {
			return b, err
		}
		if b.from, err = collectResults(paths, b.files, of); err == nil {
			b.made, err = use(b.from)
		}
		return b, err
	})
	switch stopped := ctx.Err(); {
	case stopped != nil:
		return made, nil, stopped
	case err == nil:
		return b.made, b.from, nil
	}
	if s, err = readResults(ctx, paths, of.where, b.files); err != nil {
		return made, s, err
	}
	made, err = unlessStopped(ctx, func() (made T, err error) {
		if err := s.choose(of); err != nil {
			return made, err
		}
		return use(s)
	})
	return made, s, cmp.Or(ctx.Err(), err) // of a stopped use, cells lack times
}

// collectResults is readResults for boards, comparisons and heat maps. It holds one row of each cell,
// and those of heat maps.
func collectResults(paths []string, from *result.Files, chosen choice) (*results, error) {
	requested, err := readRequested(paths)
	if err != nil {
		return nil, err
	}
	part := digestsOf(chosen.split)
	var warmed, cold collectedBoard
	digests := map[string]string{} // by trace
	var cells []result.Row         // one of each cell and level of detail
	level := [2]bool{}
	var of *collectedBoard // the last row's
	found := false
	err = from.Each(func(r *result.Row, same bool) error {
		if now := [2]bool{r.RequestID != nil, r.LayerID != nil}; requested != nil && (!same || now != level) {
			cells, level = append(cells, *r), now
		}
		if !chosen.selects(r, part) {
			of = nil
			return nil
		}
		found = true
		to := &warmed
		if r.Warmup == result.ColdStart {
			to = &cold
		}
		if same = same && to == of; !same {
			digests[r.Trace] = r.TraceDigest
		}
		of = to
		if chosen.heat {
			if err := to.addHeat(r, same); err != nil {
				return err
			}
		}
		if chosen.alone {
			return nil
		}
		return to.Add(r, same)
	})
	if err != nil {
		return nil, err
	}
	if len(result.WithoutOutdated(requested, cells)) < len(cells) || !found || part != nil && !maps.Equal(part, digests) {
		return nil, board.ErrNotCollected
	}
	if chosen.alone && warmed.heat != nil && cold.heat != nil { // messages name cells in the order of the rows
		return nil, board.ErrNotCollected
	}
	starts, err := board.NewStarts(&warmed.Collector, &cold.Collector)
	return &results{starts: starts, heat: append(warmed.heat, cold.heat...), corpus: corpusName(digests),
		incomplete: result.FindIncomplete(requested, cells, chosen.where), files: from}, err
}

// selects reports whether a row is chosen. part is digestsOf the split.
func (c *choice) selects(r *result.Row, part map[string]string) bool {
	return c.where.Selects(r) && (part == nil || part[r.Trace] != "")
}

// writeParquet writes the chosen rows of boards that readBoards made from the files. It holds the
// encoded file, and all rows if they are not sorted. Each file of a replay is.
func (c *choice) writeParquet(ctx context.Context, w *bytes.Buffer, from *result.Files) error {
	_, err := unlessStopped(ctx, func() (any, error) {
		if err := c.writeSorted(w, from); !errors.Is(err, result.ErrNotSorted) {
			return nil, err
		}
		w.Reset()
		rows, err := from.All()
		if err != nil {
			return nil, err
		}
		part := digestsOf(c.split)
		return nil, result.WriteParquet(w, slices.DeleteFunc(rows, func(r result.Row) bool { return !c.selects(&r, part) }))
	})
	return err
}

// writeSorted is writeParquet of rows one at a time. The error is result.ErrNotSorted if they are not
// sorted.
func (c *choice) writeSorted(w io.Writer, from *result.Files) error {
	part := digestsOf(c.split)
	p := result.NewParquetWriter(w)
	err := from.Each(func(r *result.Row, _ bool) error {
		if !c.selects(r, part) {
			return nil
		}
		return p.Add(r)
	})
	if err != nil {
		return err
	}
	return p.Close()
}

// digestsOf returns the digests of the traces of a part of the latest corpus, by name, nil for all traces.
func digestsOf(split corpus.Split) map[string]string {
	if split == corpus.Whole {
		return nil
	}
	digests, latest := map[string]string{}, corpus.Latest()
	for _, name := range latest.Part(split) {
		digests[name] = latest.Digests[name]
	}
	return digests
}

// readRequested reads the requested cells of the folders among the paths.
func readRequested(paths []string) (requested []result.Row, err error) {
	for _, path := range orResults(paths) {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue // a file, or an error for those that read the rows
		}
		of, err := replay.Requested(path)
		if err != nil {
			return nil, fmt.Errorf("read rows: %w", err)
		}
		requested = append(requested, of...)
	}
	return requested, nil
}

// readAllRows reads the rows of all paths, or those of the results folder without paths.
func readAllRows(ctx context.Context, paths []string) ([]result.Row, error) {
	if len(paths) == 0 {
		if _, err := os.Stat(resultsFolder); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no ROWS named, and no folder %s here: name files of rows, or make the folder "+
				"with `kvreplay replay TRACE... --out %s`", resultsFolder, resultsFolder)
		}
	}
	return unlessStopped(ctx, func() ([]result.Row, error) { return result.ReadRows(orResults(paths)...) })
}

// errorOf returns the error of a board or comparison that was printed but is incomplete.
func errorOf(i *result.Incomplete) error {
	if i == nil {
		return nil
	}
	return i
}

// missing explains an error that is about a policy without rows: if --where removed the rows
// of the policy, it says so and states the conditions that keep them.
func (s *results) missing(err error, policy string) error {
	policy = policies.Named(policy, slice.Map(s.all, func(r result.Row) string { return r.Policy }))
	removed := 0
	with := s.where.Including(policy)
	for i := range s.all {
		if r := &s.all[i]; r.Policy == policy && with.Selects(r) {
			if s.where.Selects(r) {
				return err
			}
			removed++
		}
	}
	if removed == 0 && s.incomplete != nil {
		return errors.Join(s.incomplete, err)
	}
	if removed == 0 {
		return err
	}
	remedy := "remove --where"
	if conditions := with.Conditions(); len(conditions) > 0 {
		remedy = "use " + strings.Join(slice.Map(conditions, func(where string) string { return "--where " + printable.ShellWord(where) }), " ")
	}
	return fmt.Errorf("--where excludes the %s of policy %s, which this command needs: %s", count(removed, "row"), policy, remedy)
}
