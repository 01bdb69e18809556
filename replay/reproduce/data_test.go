package reproduce_test

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// one runs a study with a single section, s, and the given lines of a data file.
func one(t *testing.T, lines string, study func(*reproduce.Draft)) ([]reproduce.Section, error) {
	t.Helper()
	return run(t, "sections:\n  - section: s\n    title: S\n    method: M\n    lines:\n      "+lines, func(s *reproduce.Study) { study(s.Section("s")) })
}

func run(t *testing.T, data string, study func(*reproduce.Study)) ([]reproduce.Section, error) {
	t.Helper()
	s, err := reproduce.Begin(t.Context(), reproduce.Paper{Name: "p", Data: data, Study: study}, reproduce.Inputs{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run()
}

func set(ours float64) func(*reproduce.Draft) {
	return func(d *reproduce.Draft) { d.Set("x", ours) }
}

// The data file in the README gives a line for each row of its table.
func TestREADMEExample(t *testing.T) {
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	data, _, _ := strings.Cut(rest, "```")
	sections, err := run(t, data, func(s *reproduce.Study) {
		for _, row := range s.Rows("table-1") {
			s.Section("table-1").Set("time", 1.03*row.Number("time"), row)
		}
	})
	fatal.If(t, err)
	lines := sections[0].Lines
	if len(lines) != 2 || lines[1].Item != "batch 64" || lines[1].Result != reproduce.Within {
		t.Errorf("lines %+v", lines)
	}
}

// A line is within its gate or past it.
func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		line  string
		study func(*reproduce.Draft)
		want  reproduce.Verdict
	}{
		"within":           {`{item: x, unit: "", kind: transferred, printed: 100, gate_relative: 0.04}`, set(103.9), reproduce.Within},
		"beyond":           {`{item: x, unit: "", kind: transferred, printed: 100, gate_relative: 0.04}`, set(95.9), reproduce.PastGate},
		"known":            {`{item: x, unit: "", kind: transferred, printed: 100, gate_relative: 0.04, miss: y}`, set(95.9), reproduce.KnownMiss},
		"negative printed": {`{item: x, unit: "", kind: prediction, printed: -100, gate_relative: 0.04}`, set(-103), reproduce.Within},
		"zero printed":     {`{item: x, unit: "", kind: prediction, printed: 0, gate_relative: 0.04}`, set(1), reproduce.PastGate},
		"reference":        {`{item: x, unit: "", kind: self-check, reference: 100, from: by hand, gate_relative: 0.04}`, set(103.9), reproduce.Within},
		"absolute":         {`{item: x, unit: "", kind: exact arithmetic, printed: 1.46, gate_absolute: 0.01}`, set(1.471), reproduce.PastGate},
		"no figure":        {`{item: x, unit: "", kind: prediction, printed: 1, gate_relative: 0.04}`, set(math.NaN()), reproduce.PastGate},
		"infinite figure":  {`{item: x, unit: "", kind: prediction, printed: 1, gate_relative: 0.04}`, set(math.Inf(1)), reproduce.PastGate},
		"not computable":   {`{item: x, unit: "", kind: not computable, printed: 1, note: not stated}`, func(*reproduce.Draft) {}, reproduce.NotJudged},
		"absent":           {`{item: x, unit: "", kind: prediction, printed: 1, gate_relative: 0.04, absent: no trace}`, func(d *reproduce.Draft) { d.Absent("x") }, reproduce.NotJudged},
		"statement":        {`{item: x, unit: "", kind: ordinal}`, func(d *reproduce.Draft) { d.Holds("x", reproduce.None, true) }, reproduce.Holds},
		"false statement":  {`{item: x, unit: "", kind: ordinal}`, func(d *reproduce.Draft) { d.Holds("x", 1, false) }, reproduce.PastGate},
		"limits":           {`{item: x, unit: "", kind: ordinal, above: 1, at_most: 2}`, set(2), reproduce.Holds},
		"past limits":      {`{item: x, unit: "", kind: ordinal, at_least: 1, below: 2}`, set(2), reproduce.PastGate},
	} {
		sections, err := one(t, "- "+c.line, c.study)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := sections[0].Lines[0].Result; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Lines are in the order of the data file. Neighbours that are repeated for the same rows stay
// together, in the order of the study.
func TestOrder(t *testing.T) {
	sections, err := one(t, strings.Join([]string{
		`- {id: a, each: row, item: "{n} a", unit: "", kind: ordinal}`,
		`- {id: b, each: row, item: "{n} b: {v:%.1f}", unit: "", kind: ordinal}`,
		`- {item: c, unit: "", kind: ordinal}`,
		`- {id: d, each: trace, item: "{n} d", unit: "", kind: ordinal}`,
	}, "\n      "), func(d *reproduce.Draft) {
		d.Holds("c", 0, true)
		d.Let("v", 0.25)
		for n := range 2 {
			d.Holds("a", 0, true, reproduce.Row{"n": n})
			d.Holds("b", 0, true, reproduce.Row{"n": n})
		}
	})
	fatal.If(t, err)
	var items []string
	for _, l := range sections[0].Lines {
		items = append(items, l.Item)
	}
	if got, want := strings.Join(items, ", "), "0 a, 0 b: 0.2, 1 a, 1 b: 0.2, c"; got != want {
		t.Errorf("lines %s, want %s", got, want)
	}
}

// Lines without a kind or a required key are errors that name file and line. Unknown and repeated
// keys are such errors, too.
func TestIncompleteLinesAreRefused(t *testing.T) {
	const first = "p/paper.yaml:6: section s"
	for line, want := range map[string]string{
		`- {item: x, unit: "", printed: 1, gate_relative: 0.1}`:                                    first + `, x: unknown kind ""`,
		`- {item: x, unit: "", kind: guess, printed: 1, gate_relative: 0.1}`:                       first + `, x: unknown kind "guess"`,
		`- {item: x, unit: "", kind: prediction, gate_relative: 0.1}`:                              first + `, x: it has neither a printed figure`,
		`- {item: x, unit: "", kind: transferred, printed: 1}`:                                     first + `, x: it has no gate`,
		`- {item: x, unit: "", kind: self-check, printed: 1, gate_relative: 0.1}`:                  first + `, x: a self-check compares with a reference`,
		`- {item: x, unit: "", kind: prediction, reference: 1, gate_relative: 0.1}`:                first + `, x: a reference needs from`,
		`- {item: x, unit: "", kind: prediction, printed: 1, gate_relative: 0.1, below: 1}`:        first + `, x: only statements have limits`,
		`- {item: x, unit: "", kind: not computable}`:                                              first + `, x: it misses without a reason`,
		`- {item: x, kind: ordinal}`:                                                               first + `, x: item and unit are required`,
		`- {item: x, unit: "", kind: ordinal, belov: 1}`:                                           first + `: `,
		`- {item: x, unit: "", kind: ordinal, kind: ordinal}`:                                      first + `: yaml: construct errors: line 6: mapping key "kind" already defined`,
		`- {item: x, unit: "", kind: ordinal, gate_relative: 5 %}`:                                 first + `: `,
		"- {item: x, unit: \"\", kind: ordinal}\n      - {item: x, unit: \"\", kind: ordinal}":     `p/paper.yaml:7: section s: two lines are named "x"`,
		"- {item: x, unit: \"\", kind: ordinal}\n    metod: M":                                     `did you mean method`,
		"- {item: x, unit: \"\", kind: ordinal}\n  - {section: s, title: T, method: M, lines: []}": `two sections are named "s"`,
	} {
		if _, err := one(t, line, func(d *reproduce.Draft) { d.Holds("x", 0, true) }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected %q", line, err, want)
		}
	}
}

// A study is refused if it leaves a line open, fills in one that does not exist, or gives a
// text no value.
func TestIncompleteStudiesAreRefused(t *testing.T) {
	const figure, statement = `- {item: x, unit: "", kind: prediction, printed: 1, gate_relative: 0.1}`, `- {item: x, unit: "", kind: ordinal}`
	for want, c := range map[string]struct {
		line  string
		study func(*reproduce.Draft)
	}{
		`line "x" has no figure`:                 {figure, func(*reproduce.Draft) {}},
		`no line "y"`:                            {figure, func(d *reproduce.Draft) { d.Set("y", 1) }},
		`line "x" has two figures`:               {figure, func(d *reproduce.Draft) { d.Set("x", 1); d.Set("x", 1) }},
		`line "x" has limits or is no statement`: {figure, func(d *reproduce.Draft) { d.Holds("x", 1, true) }},
		`line "x" has no text for absent`:        {figure, func(d *reproduce.Draft) { d.Absent("x") }},
		`statement "x" has no limits`:            {statement, set(1)},
		`no figure "f"`:                          {statement, func(d *reproduce.Draft) { d.Draw("f", nil) }},
		`no sentence "f"`:                        {statement, func(d *reproduce.Draft) { d.Extend("f") }},
		`{y} has no value`:                       {`- {id: x, item: "{y}", unit: "", kind: ordinal}`, func(d *reproduce.Draft) { d.Holds("x", 1, true) }},
		`text is not a number`:                   {`- {id: x, item: x, unit: "", kind: prediction, printed: column, gate_relative: 0.1}`, func(d *reproduce.Draft) { d.Set("x", 1, reproduce.Row{"column": "text"}) }},
		`the verb does not fit the value`:        {`- {id: x, item: "{y:%d}", unit: "", kind: ordinal}`, func(d *reproduce.Draft) { d.Holds("x", 1, true, reproduce.Row{"y": 0.5}) }},
		`{column} has no value`:                  {`- {item: x, unit: "", kind: prediction, printed: column, gate_relative: 0.1}`, set(1)},
	} {
		if _, err := one(t, c.line, c.study); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}

// Each figure and table of a paper has a section, or a gap with the reason.
func TestFiguresLeftOutAreRefused(t *testing.T) {
	const section = "sections: [{section: a, title: A, method: M, covers: [Fig. 1, Table 1]}]\n"
	for want, data := range map[string]string{
		"no gap names Fig. 2":  section + "figures: 2\ngaps: [{place: Fig. 20, shows: x, why: y}]",
		"no gap names Table 2": section + "tables: 2",
		`gap "Fig. 2" lacks`:   section + "figures: 2\ngaps: [{place: Fig. 2, shows: x}]",
		"":                     section + "figures: 2\ntables: 1\ngaps: [{place: Fig. 2b, shows: x, why: y}]",
	} {
		_, err := run(t, data, func(*reproduce.Study) {})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}
