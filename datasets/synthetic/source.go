package synthetic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/trace"
)

// Source draws the streams of a trace in any order and reuses its memory. Each goroutine needs its
// own.
type Source struct {
	dials   *Dials
	process process
	ranker  ranker
	step    int32     // of the next row
	scores  []float32 // by rank
}

const (
	leadIn  = 8 // steps of a process before its first recorded one, if the context has them
	leadOut = 8 // steps after its last recorded one
)

// NewSource returns a source of the streams that d describes. d must be valid.
func NewSource(d *Dials) *Source {
	g := &Source{dials: d}
	if d.Scores > 0 {
		g.scores = scoresOf(d.Candidates, d.Scores)
	}
	return g
}

// scoresOf returns the scores by rank: a power law that sums to 1.
func scoresOf(n int, power float64) []float32 {
	values, sum := make([]float64, n), 0.0
	for i := range values {
		values[i] = math.Pow(float64(i+1), -power)
		sum += values[i]
	}
	scores := make([]float32, n)
	for i, v := range values {
		scores[i] = float32(v / sum)
	}
	return scores
}

// Streams returns the number of streams.
func (g *Source) Streams() int { return g.dials.streams() }

// Stream draws the i-th stream in the order of keys into s.
func (g *Source) Stream(i int, s *trace.Stream) {
	info := g.begin(i)
	g.rows(info, info.Rows, s)
}

func (g *Source) begin(i int) trace.StreamInfo {
	g.draw(i)
	g.ranker.begin(&g.process, g.lead())
	if g.dials.Order == trace.OrderRank {
		g.ranker.rank()
	}
	g.step = int32(-g.dials.Windows)
	return g.dials.info(i)
}

func (g *Source) draw(i int) {
	d := g.dials
	request, layer, head := d.place(i)
	l := d.spread(layer, head)
	r := source(d.Seed, ofStream, uint64(request), uint64(layer), uint64(head))
	g.process.draw(extent{topK: d.TopK, tokens: d.listed() - g.lead() + 1, steps: g.lead() + d.Windows + d.Steps + leadOut}, &l, r)
}

// lead returns the number of steps of a process before its first recorded one.
func (g *Source) lead() int { return min(leadIn, g.dials.listed()-g.dials.Candidates) }

// place returns the request, layer and head of the i-th stream, by number.
func (d *Dials) place(i int) (request, layer, head int) {
	heads := max(1, d.Heads)
	return i / heads / d.Layers, i / heads % d.Layers, i % heads
}

func (d *Dials) info(i int) trace.StreamInfo {
	request, layer, head := d.place(i)
	name := fmt.Sprintf("synthetic-%0*d", len(fmt.Sprint(d.Requests-1)), request) // names sort as numbers do
	key := trace.Key{Request: name, Layer: d.layerID(layer), Head: trace.NoHead}
	if d.Heads > 0 {
		key.Head = int32(head)
	}
	return trace.StreamInfo{Key: key, PromptLen: int32(d.Context), Rows: d.Windows + d.Steps}
}

func (g *Source) rows(info trace.StreamInfo, n int, s *trace.Stream) {
	s.Reset(info)
	s.Indices = slices.Grow(s.Indices, n*g.dials.Candidates)
	for range n {
		g.row(s)
	}
}

// row appends the next row. It writes the list in place, because s has room for it.
func (g *Source) row(s *trace.Stream) {
	m, from := g.dials.Candidates, len(s.Indices)
	list := s.Indices[from : from+m]
	if g.dials.Order == trace.OrderIndex {
		g.ranker.ascending(list)
		g.ranker.follow()
	} else {
		g.ranker.demand(list[:g.dials.TopK])
		g.ranker.candidates(list[g.dials.TopK:])
		g.ranker.advance()
	}
	if sink := int32(g.dials.Sink); sink > 0 {
		for i := range list {
			list[i] += sink
		}
	}
	s.Append(trace.Row{Step: g.step, Scores: g.scores})
	g.step++
	s.Indices = s.Indices[:from+m]
	s.Offsets[s.Rows] = int32(from + m)
}

// Meta returns the metadata of the trace that d describes.
func (d *Dials) Meta() (trace.Meta, error) {
	dials := *d
	dials.About = ""
	text, err := json.Marshal(dials)
	if err != nil {
		return trace.Meta{}, err
	}
	m := trace.Meta{Order: d.Order, TopK: d.TopK, Candidates: d.Candidates, BlockTokens: 1, EntryBytes: d.EntryBytes,
		Model: trace.SyntheticModel, Generator: trace.SyntheticGenerator, Notes: map[string]string{"dials": string(text)}}
	if d.About != "" {
		m.Notes["about"] = d.About
	}
	if d.Local > 0 {
		m.Sink, m.Local = &dials.Sink, &dials.Local
	}
	if d.Scores > 0 {
		m.ScoreKind = "softmax"
	}
	return m, nil
}

// Options configure the writing of a trace.
type Options struct {
	// Workers is the number of streams drawn at once, 0 for one per CPU. The written bytes do not
	// depend on it.
	Workers int
	// Progress is called with the number of written streams. It may be nil.
	Progress func(streams int)
}

// Write writes the trace that d describes to path, with a few rows per worker in memory. After an
// error, or if ctx is cancelled, nothing is left behind.
func Write(ctx context.Context, path string, d *Dials, o Options) (err error) {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("make synthetic trace: %w", err)
	}
	m, err := d.Meta()
	if err != nil {
		return fmt.Errorf("make synthetic trace: %w", err)
	}
	w, err := trace.Create(path, m)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := drawAll(ctx, d, o, w.WriteParts); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("make synthetic trace: stopped, nothing was written to %s: %w", path, ctx.Err())
		}
		return fmt.Errorf("make synthetic trace: %w", err)
	}
	return w.Close()
}

// partRows is the number of rows that are drawn, and then written, together. It is a multiple of
// trace.RowsPerWrite, so the file has the same bytes as if its streams were written whole.
const partRows = trace.RowsPerWrite

// parts are the parts that a worker draws, in the order of its streams.
type parts struct {
	drawn, used chan *trace.Stream // used streams will be filled again
}

// drawAll draws the streams on several workers and passes them to write in key order.
func drawAll(ctx context.Context, d *Dials, o Options, write func(trace.StreamInfo, iter.Seq2[*trace.Stream, error]) error) error {
	workers := min(cmp.Or(max(0, o.Workers), runtime.GOMAXPROCS(0)), d.streams())
	g, ctx := errgroup.WithContext(ctx)
	drawn := make([]parts, workers)
	for i := range drawn {
		drawn[i] = parts{drawn: make(chan *trace.Stream, 2), used: make(chan *trace.Stream, 2)}
		for range cap(drawn[i].used) {
			drawn[i].used <- new(trace.Stream)
		}
		g.Go(func() error { return drawn[i].draw(ctx, d, i, workers) })
	}
	g.Go(func() error {
		for i := range d.streams() {
			info := d.info(i)
			if err := write(info, drawn[i%workers].stream(ctx, info)); err != nil {
				return err
			}
			if o.Progress != nil {
				o.Progress(1)
			}
		}
		return nil
	})
	return g.Wait()
}

// draw draws every n-th stream from the first on.
func (p parts) draw(ctx context.Context, d *Dials, first, n int) error {
	source := NewSource(d)
	for i := first; i < source.Streams(); i += n {
		info := source.begin(i)
		for left := info.Rows; left > 0; left -= partRows {
			var s *trace.Stream
			select {
			case <-ctx.Done():
				return ctx.Err()
			case s = <-p.used:
			}
			source.rows(info, min(partRows, left), s)
			p.drawn <- s // it does not block, because no more are in use
		}
	}
	return nil
}

// stream returns the parts of the next stream.
func (p parts) stream(ctx context.Context, info trace.StreamInfo) iter.Seq2[*trace.Stream, error] {
	return func(yield func(*trace.Stream, error) bool) {
		for left := info.Rows; left > 0; {
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case s := <-p.drawn:
				left -= s.Rows
				if !yield(s, nil) {
					return
				}
				p.used <- s
			}
		}
	}
}

// spread returns the dials of a stream: those of its layer and head, with the churn spread over
// layers, then over the heads of a layer.
func (d *Dials) spread(layer, head int) Locality {
	l := d.at(layer, head)
	if d.LayerSpread > 0 {
		l.spread(d.LayerSpread, source(d.Seed, ofLayer, uint64(layer), 0, 0), d.TopK)
	}
	if d.HeadSpread > 0 {
		l.spread(d.HeadSpread, source(d.Seed, ofHead, uint64(layer), uint64(head), 0), d.TopK)
	}
	return l
}

// mostSpread is the largest factor by which a spread changes churn.
const mostSpread = 4

// spread draws a churn. It is log-normal with that deviation of its logarithm, limited to a factor
// of mostSpread each way and by the other dials. Its mean is the previous churn.
func (l *Locality) spread(deviation float64, r *random, topK int) {
	k := float64(topK)
	churn := churnOf(l, k)
	least, most := max(1, churn/mostSpread), min(churn*mostSpread, restDemand(l, k)+1)
	z := rand.New(r).NormFloat64()
	l.Overlap = 1 - max(least, min(most, math.Exp(centre(churn, deviation, least, most)+deviation*z)))/k
}

// centre returns the mean logarithm of log-normal values with the given mean. Values below least or
// above most are set to these limits.
func centre(mean, deviation, least, most float64) float64 {
	lo, hi := math.Log(least)-8*deviation, math.Log(most)+8*deviation
	for range 50 {
		if mid := (lo + hi) / 2; cutMean(mid, deviation, least, most) < mean {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// cutMean returns the mean of log-normal values. Values below least or above most are set to these
// limits.
func cutMean(mu, sigma, least, most float64) float64 {
	normal := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) } // normal distribution
	a, b := (math.Log(least)-mu)/sigma, (math.Log(most)-mu)/sigma
	return least*normal(a) + math.Exp(mu+sigma*sigma/2)*(normal(b-sigma)-normal(a-sigma)) + most*normal(-b)
}

// Reached draws streams of d and returns their mean overlap and the overlap that the dials request.
// They differ if other dials leave no room: README.md gives the range. Reached draws no ranks and
// only a few streams. It draws enough of short ones that the mean is that of the dials rather than
// of chance.
func (d *Dials) Reached() (overlap, asked float64) {
	const indices, most, steps = 1 << 23, 8, 1 << 10
	rows := d.Windows + d.Steps
	if rows < 2 {
		return d.Overlap, d.Overlap
	}
	g, exchanged := NewSource(d), 0
	streams := max(1, min(max(most, steps/(rows-1)), indices/(rows*d.TopK)))
	for i := range streams {
		_, layer, head := d.place(i)
		l := d.spread(layer, head)
		asked += l.Overlap / float64(streams)
		g.draw(i)
		from := g.lead()
		exchanged += int(g.process.gone[from+rows] - g.process.gone[from+1])
	}
	return 1 - float64(exchanged)/float64(streams*(rows-1)*d.TopK), asked
}
