package allocate

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
)

// WriteText writes reports of the same rows and memory as text. It writes one line per method, and
// for a single method also its layers. layout formats the tables, with texts in the first column
// and figures in the others.
func WriteText(w io.Writer, reports []*Report, layout func(header []string, rows [][]string) string) error {
	r := reports[0]
	var b strings.Builder
	r.head(&b)
	b.WriteString(layout(methodTable(reports)))
	for _, one := range reports {
		one.bound(&b)
		one.unused(&b)
	}
	if len(reports) == 1 {
		b.WriteByte('\n')
		b.WriteString(layout(r.layerTable()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) head(b *strings.Builder) {
	sizes := fmt.Sprintf("capacities from %s to %s entries", comma(r.sizes[0]), comma(r.sizes[1]))
	if r.Family == Windows {
		sizes = fmt.Sprintf("windows from %d to %d steps", r.sizes[0], r.sizes[1])
	}
	fmt.Fprintf(b, "%s: %d streams in %d layers, %s\n", r.Policy, len(r.Sizes), len(r.Layers), sizes)
	fmt.Fprintf(b, "memory %s: %s entries per request, at least %s per stream\n", r.Memory, comma64(r.MemoryEntries), r.Family.text(r.Floor))
	r.Profile.line(b, "profiled on")
	r.Judge.line(b, "judged on")
	b.WriteByte('\n')
}

func (s *Side) line(b *strings.Builder, what string) {
	if s == nil {
		return
	}
	traces := slice.Map(byTrace(s.Requests), func(of []Request) string { return of[0].Trace })
	fmt.Fprintf(b, "%s %s of %s, %s steps: %s\n", what, text.Count(len(s.Requests), "request"), names.Some(traces), comma64(s.Steps), names.Some(idsOf(s.Requests)))
}

func methodTable(reports []*Report) (header []string, rows [][]string) {
	r := reports[0]
	header = []string{"method"}
	first := []string{"uniform"}
	for _, s := range r.sides() {
		header = append(header, s.name+"memory", s.name+"misses", s.name+"bytes/step", s.name+"÷ uniform")
		first = append(first, s.side.cells(s.side.Uniform, nil)...)
	}
	rows = append(rows, first)
	for _, r := range reports {
		if r.Method == uniform.Name && r.Profile != nil {
			continue // just made: only the first line
		}
		cells := []string{r.Method}
		for _, s := range r.sides() {
			cells = append(cells, s.side.cells(s.side.Plan, s.side.Ratio)...)
		}
		rows = append(rows, cells)
	}
	return header, rows
}

// namedSide is a side with the first text of its line.
type namedSide struct {
	name string
	side *Side
}

func (r *Report) sides() (sides []namedSide) {
	if r.Profile != nil {
		sides = append(sides, namedSide{"", r.Profile})
	}
	if r.Judge != nil {
		sides = append(sides, namedSide{"judged ", r.Judge})
	}
	return sides
}

func (s *Side) cells(o Outcome, ratio *float64) []string {
	return []string{comma64(o.MemoryEntries), comma64(o.Misses), bytesText(o.HostToDeviceBytes, s.Steps), ratioText(ratio)}
}

// unused says that the plan leaves memory that uniform sizes use, which the ratio does not show.
func (r *Report) unused(b *strings.Builder) {
	s := cmp.Or(r.Profile, r.Judge)
	if used, even := s.Plan.MemoryEntries, s.Uniform.MemoryEntries; r.Family == Capacities && used < even {
		fmt.Fprintf(b, "%s: it uses %s entries and uniform %s, so its ratio is of less memory\n", r.Method, comma64(used), comma64(even))
	}
}

// bound writes how far the plan can be from the best.
func (r *Report) bound(b *strings.Builder) {
	if r.Profile == nil || r.AtLeast == nil {
		return
	}
	switch above := 100 * (float64(r.Profile.Plan.moved)/float64(*r.AtLeast) - 1); {
	case r.Granularity != nil && above <= 0:
		fmt.Fprintf(b, "%s: no other choice of profiled sizes moves less (memory in units of %s entries)\n", r.Method, comma64(*r.Granularity))
	case above <= 0:
		fmt.Fprintf(b, "%s: no other choice of profiled sizes moves less\n", r.Method)
	default:
		fmt.Fprintf(b, "%s: at most %.2f %% above the best choice of profiled sizes\n", r.Method, above)
	}
}

func (r *Report) layerTable() (header []string, rows [][]string) {
	size := "entries"
	if r.Family == Windows {
		size = "steps"
	}
	header = []string{"layer", "heads", size, "× K", "of memory", "misses", "uniform", "÷ uniform"}
	if r.Profile != nil && r.Judge != nil {
		header = append(header, "judged ÷ uniform")
	}
	for _, l := range r.Layers {
		sizes := comma(l.Largest)
		if l.Smallest != l.Largest {
			sizes = comma(l.Smallest) + "–" + sizes
		}
		timesK := ""
		if r.kEntries > 0 {
			timesK = fmt.Sprintf("%.2f", float64(l.MemoryEntries)/float64(l.Heads*r.kEntries))
		}
		cells := []string{fmt.Sprint(l.Layer), fmt.Sprint(l.Heads), sizes, timesK, fmt.Sprintf("%.1f %%", 100*l.Share),
			comma64(l.Misses), comma64(l.UniformMisses), ratioText(l.Ratio)}
		if r.Profile != nil && r.Judge != nil {
			cells = append(cells, ratioText(l.JudgeRatio))
		}
		rows = append(rows, cells)
	}
	return header, rows
}

func comma(n int) string     { return humanize.Comma(int64(n)) }
func comma64(n int64) string { return humanize.Comma(n) }

func ratioText(q *float64) string {
	if q == nil {
		return ""
	}
	return fmt.Sprintf("%.4f", *q)
}

// bytesText formats bytes per step in binary units.
func bytesText(bytes *int64, steps int64) string {
	if bytes == nil || steps == 0 {
		return "n/a"
	}
	v, unit := float64(*bytes)/float64(steps), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.2f %s", v, units[unit])
}
