package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/memo"
	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/render/figure"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// Paper is one published system.
type Paper struct {
	Name     string       // name on the command line: "kvpr"
	Citation string       // authors, title, publication, identifier
	Data     string       // the text of paper.yaml
	Study    func(*Study) // computes our figures
	Page     *Page        // its own page, nil for a paper of REPRODUCTION.md
}

// Page is the page of a paper that is no part of REPRODUCTION.md.
type Page struct {
	File   string // its name: "BLIND.md"
	Render func(w io.Writer, r *Reproduced, markdown bool) error
}

// Inputs are the further inputs of studies.
type Inputs struct {
	// Traces are paths of real traces, among which sections choose by metadata. Studies read them
	// with [Study.RealTraces].
	Traces []string
	// Sections are the names of the sections to compute, each "table-2" or "kvpr/table-2", all if it is
	// empty.
	Sections []string
	// Hardware is a folder of machines and models that replace the bundled ones, or empty.
	Hardware string
	// Synthetic writes a synthetic trace with the dials of a preset, shortened to steps unless
	// steps is 0. The trace has no candidates beyond the demand.
	Synthetic func(ctx context.Context, path, preset string, steps int) error
	Short     bool // smaller synthetic traces and fewer served requests, for tests
	// Progress, if not nil, gets the number of sections that were computed since the last call. Several
	// goroutines call it.
	Progress func(sections int)
}

// wants reports whether a section, "paper/section", is one to compute.
func (in *Inputs) wants(section string) bool {
	return len(in.Sections) == 0 || slices.ContainsFunc(in.Sections, func(name string) bool { return named(section, name) })
}

// named reports whether a name, "table-2" or "kvpr/table-2", is that of a section, "kvpr/table-2".
func named(section, name string) bool {
	return section == name || strings.HasSuffix(section, "/"+name)
}

// stopped is a panic that ends a study with an error.
type stopped struct{ err error }

// Check ends the study if there is an error, as testing.T.Fatal ends a test. [Make] and [Try]
// return the error. This keeps formulas readable, because every call of a model can fail.
func Check(err error) {
	if err != nil {
		panic(stopped{err})
	}
}

// Must returns v. It ends the study if there is an error.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Try runs f and returns the error that ended it. A goroutine of a study runs within Try.
func Try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopped:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// Study is a run of one paper: its data file and the models that compute its figures.
type Study struct {
	Inputs
	Context context.Context
	Library *hardware.Library
	Kernels kernel.Source // the default of kvreplay time

	paper   Paper
	data    *document
	machine func(name string) (*hardware.Machine, error)
	network pipeline.NetworkFinder
	drafts  map[string]*Draft
	current []string          // the sections that Compute computes
	traces  map[string]*Trace // by path
	folder  string            // of synthetic traces, empty before the first
}

// Begin reads the data file of a paper, the machines and the models. The caller closes the study.
func Begin(ctx context.Context, p Paper, in Inputs) (*Study, error) {
	s := &Study{Inputs: in, Context: ctx, paper: p, drafts: map[string]*Draft{}, traces: map[string]*Trace{}}
	var err error
	if s.data, err = parse(p.Name+"/paper.yaml", p.Data); err != nil {
		return nil, err
	}
	if s.Library, err = hardware.Load(in.Hardware); err != nil {
		return nil, err
	}
	s.Kernels = kernel.Fitted(s.Library)
	s.machine, s.network = memo.Func(s.Library.Machine), pipeline.Networks(s.Library)
	return s, nil
}

// Close removes the temporary files and closes the traces.
func (s *Study) Close() {
	for _, t := range s.traces {
		t.Close()
	}
	os.RemoveAll(s.folder)
}

// Compute calls part, which computes some sections, if at least one of them is to be computed.
func (s *Study) Compute(part func(), sections ...string) {
	wanted := slice.Count(sections, s.wants)
	if wanted == 0 {
		return
	}
	s.current = sections
	part()
	if s.Progress != nil {
		s.Progress(wanted)
	}
}

// RealTraces returns the paths of real traces. It ends the study if a section of the current part
// does not state in the data file that it replays traces.
func (s *Study) RealTraces() []string {
	for _, o := range s.data.Sections {
		if slices.Contains(s.current, o.Section) && !o.Traces {
			Check(fmt.Errorf("%s: section %s replays traces: expected traces: true", s.data.file, o.Section))
		}
	}
	return s.Traces
}

// wants reports whether a section of the paper is to be computed.
func (s *Study) wants(section string) bool { return s.Inputs.wants(s.paper.Name + "/" + section) }

// Rows returns the rows of a printed table of the data file.
func (s *Study) Rows(table string) []Row {
	rows, ok := s.data.Printed[table]
	if !ok {
		Check(fmt.Errorf("%s: printed has no table %q", s.data.file, table))
	}
	return rows
}

// Number returns the number in a column.
func (r Row) Number(column string) float64 {
	v := number(r[column])
	if math.IsNaN(v) {
		Check(fmt.Errorf("row %v has no number in column %q", r, column))
	}
	return v
}

// Int returns the integer in a column.
func (r Row) Int(column string) int { return int(r.Number(column)) }

// Text returns the text in a column, or "" if the row lacks it.
func (r Row) Text(column string) string { text, _ := r[column].(string); return text }

// Draft is a section that a study fills in.
type Draft struct {
	study   *Study
	outline *outline
	values  Row // values of names in braces
	entries []entry
	more    []string // sentences of the method
	figures []Figure
}

// entry is our figure for a line.
type entry struct {
	spec   *spec
	values []Row
	ours   float64
	holds  bool
	absent bool
	// interval has the ends of our interval, zeros without one.
	interval [2]float64
}

// Section returns the section with this name in the data file.
func (s *Study) Section(name string) *Draft {
	if s.drafts[name] == nil {
		i := slices.IndexFunc(s.data.Sections, func(o *outline) bool { return o.Section == name })
		if i < 0 {
			Check(fmt.Errorf("%s has no section %q", s.data.file, name))
		}
		s.drafts[name] = &Draft{study: s, outline: s.data.Sections[i], values: Row{}}
	}
	return s.drafts[name]
}

// fail ends the study with an error of the section.
func (d *Draft) fail(format string, args ...any) {
	Check(fmt.Errorf("%s: section %s: %w", d.study.data.file, d.outline.Section, fmt.Errorf(format, args...)))
}

// Let sets the value of {name} in the section's texts.
func (d *Draft) Let(name string, value any) { d.values[name] = value }

// Set sets our figure of a line. The data file states when a statement holds. values are those of
// the names in the line's texts.
func (d *Draft) Set(line string, ours float64, values ...Row) {
	l := d.line(line)
	if l.Kind == Ordinal && !l.limited() {
		d.fail("statement %q has no limits: decide it with Holds", line)
	}
	d.add(entry{spec: l, values: values, ours: ours, holds: l.holds(ours)})
}

// SetInterval sets our figure of a line as Set does, with the ends of its interval, zeros for none.
func (d *Draft) SetInterval(line string, ours float64, interval [2]float64, values ...Row) {
	d.Set(line, ours, values...)
	d.entries[len(d.entries)-1].interval = interval
}

// Holds states whether a statement holds, and sets the figure that decides it.
func (d *Draft) Holds(line string, ours float64, holds bool, values ...Row) {
	l := d.line(line)
	if l.Kind != Ordinal || l.limited() {
		d.fail("line %q has limits or is no statement: do not use Holds", line)
	}
	d.add(entry{spec: l, values: values, ours: ours, holds: holds})
}

// Absent states that the study cannot compute a figure, for the reason in the data file.
func (d *Draft) Absent(line string, values ...Row) {
	l := d.line(line)
	if l.Absent == "" && l.Kind != NotComputable {
		d.fail("line %q has no text for absent", line)
	}
	d.add(entry{spec: l, values: values, ours: None, absent: true})
}

func (d *Draft) line(id string) *spec {
	i := slices.IndexFunc(d.outline.specs, func(l *spec) bool { return l.ID == id })
	if i < 0 {
		d.fail("no line %q", id)
	}
	return d.outline.specs[i]
}

func (d *Draft) add(e entry) {
	if e.spec.Each == "" && slices.ContainsFunc(d.entries, func(x entry) bool { return x.spec == e.spec }) {
		d.fail("line %q has two figures", e.spec.ID)
	}
	d.entries = append(d.entries, e)
}

// Extend adds a sentence of the data file to the method.
func (d *Draft) Extend(sentence string, values ...Row) {
	text, ok := d.outline.More[sentence]
	if !ok {
		d.fail("no sentence %q", sentence)
	}
	d.more = append(d.more, d.text(text, values...))
}

// Draw draws a figure of the data file with some lines.
func (d *Draft) Draw(name string, lines []figure.Line) {
	d.draw(name, func(f *figureText) figure.Drawing {
		for i := range lines {
			lines[i].Bare = true
		}
		return &figure.Lines{X: f.X, Y: f.Y, Ticks: f.Ticks, Share: !f.Open, Lines: lines}
	})
}

// DrawBars draws a figure of the data file with some bars.
func (d *Draft) DrawBars(name string, bars []figure.Bar) {
	d.draw(name, func(f *figureText) figure.Drawing { return figure.Shares(f.Y, f.Series, bars) })
}

func (d *Draft) draw(name string, drawing func(*figureText) figure.Drawing) {
	i := slices.IndexFunc(d.outline.Figures, func(f figureText) bool { return f.Name == name })
	if i < 0 {
		d.fail("no figure %q", name)
	}
	f := &d.outline.Figures[i]
	svg, err := figure.ForDocument(d.text(f.Title), drawing(f))
	if err != nil {
		d.fail("figure %s: %w", name, err)
	}
	d.figures = append(d.figures, Figure{Name: f.Name, Alt: d.text(f.Alt), SVG: svg})
}

// braces matches names in a text, with a verb of package fmt after an optional colon.
var braces = regexp.MustCompile(`\{([^{}:]+)(?::([^{}]+))?\}`)

// text replaces the names in braces by their values.
func (d *Draft) text(text string, values ...Row) string {
	return braces.ReplaceAllStringFunc(text, func(found string) string {
		parts := braces.FindStringSubmatch(found)
		done := fmt.Sprintf(cmp.Or(parts[2], "%v"), d.value(parts[1], values...))
		if parts[2] != "" && strings.Contains(done, "%!") {
			d.fail("%q: the verb does not fit the value: %s", text, done)
		}
		return done
	})
}

// value returns the value of a name, from the line or otherwise the section.
func (d *Draft) value(name string, values ...Row) any {
	for _, row := range append(slices.Clip(values), d.values) {
		if v, ok := row[name]; ok {
			return v
		}
	}
	d.fail("{%s} has no value", name)
	return nil
}

// Finish makes the section. It ends the study if a line has no figure.
func (d *Draft) Finish() Section {
	o := d.outline
	method := append([]string{d.text(o.Method)}, d.more...)
	s := Section{Name: o.Section, Title: d.text(o.Title), Covers: append([]string{}, o.Covers...),
		Method: strings.Join(method, " "), Assumptions: d.texts(o.Assumptions), Constants: []Constant{}, Lines: d.lines(),
		Contradictions: d.texts(o.Contradictions), Figures: append([]Figure{}, d.figures...)}
	for _, c := range o.Constants {
		value := optional.Or(c.Value, number(d.values[c.ID]))
		if math.IsNaN(value) {
			d.fail("constant %q has no value", c.Name)
		}
		s.Constants = append(s.Constants, Constant{c.Name, Number(value), c.Unit, d.text(c.From)})
	}
	s.Summary = count(s.Lines, nil)
	return s
}

func (d *Draft) texts(list []string) []string {
	return slice.Map(list, func(text string) string { return d.text(text) })
}

// lines returns the lines in the order of the data file. Neighbours that are repeated for the same
// rows stay together in the study's order.
func (d *Draft) lines() []Line {
	lines := []Line{}
	specs := d.outline.specs
	for _, l := range specs {
		_, table := d.study.data.Printed[l.Each]
		required := table || l.Each == "" && l.Kind != NotComputable
		if required && !slices.ContainsFunc(d.entries, func(e entry) bool { return e.spec == l }) {
			d.fail("line %q has no figure", l.ID)
		}
	}
	for len(specs) > 0 {
		n := 1
		for specs[0].Each != "" && n < len(specs) && specs[n].Each == specs[0].Each {
			n++
		}
		before := len(lines)
		for _, e := range d.entries {
			if slices.Contains(specs[:n], e.spec) {
				lines = append(lines, d.finished(&e))
			}
		}
		if l := specs[0]; len(lines) == before && l.Each == "" && l.Kind == NotComputable {
			lines = append(lines, d.finished(&entry{spec: l, ours: None}))
		}
		specs = specs[n:]
	}
	return lines
}

// finished returns a line with our figure.
func (d *Draft) finished(e *entry) Line {
	value := func(v any) Number {
		if name, ok := v.(string); ok {
			v = d.value(name, e.values...)
		}
		if v != nil && math.IsNaN(number(v)) {
			d.fail("line %q: %v is not a number", e.spec.ID, v)
		}
		return Number(number(v))
	}
	l := *e.spec
	if e.absent && l.Kind != NotComputable {
		if l.Kind == Ordinal { // the unit is that of the deciding figure
			l.Unit = new(string)
		}
		l.Kind, l.Note, l.Miss = NotComputable, l.Absent, ""
	}
	line := l.line(value)
	line.Ours, line.Interval = Number(e.ours), e.interval
	for _, text := range []*string{&line.Item, &line.Note, &line.From} {
		*text = d.text(*text, e.values...)
	}
	line.complete(e.holds, d.text(l.Miss, e.values...))
	if err := line.check(); err != nil {
		Check(fmt.Errorf("%s, %s: %w", l.place, line.Item, err))
	}
	return line
}
