package figure

import (
	"bytes"
	"compress/zlib"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// drawings are one of each kind, with names that are no markup and that the fonts lack.
func drawings() map[string]Drawing {
	const hostile = "<b>&\"\x1b[2J−漢"
	lines := &Lines{X: "step", Y: "share", Lines: []Line{
		{Name: hostile, Points: []Point{{1, 0.5, 0.4, 0.6}, {2, 0.3, 0.3, 0.3}}},
		{Name: "opt", Bound: true, Points: []Point{{1, 0.2, 0.2, 0.2}, {2, 0.1, 0.1, 0.1}}},
	}}
	return map[string]Drawing{
		"lines":        lines,
		"one point":    &Lines{X: "x", Y: "y", Lines: []Line{{Name: "a", Points: []Point{{3, 1, 1, 1}}}}},
		"log":          &Lines{LogX: true, Ticks: []float64{1, 4}, Lines: []Line{{Name: "a", Bare: true, Points: []Point{{1, 1, 1, 1}, {4, 2, 2, 2}}}}},
		"panels":       Panels{lines, {Lines: []Line{{Name: "a", Points: []Point{{1, 1, 1, 1}}}}}},
		"dots":         &Dots{X: "x", Rows: []Row{{hostile, "1.0 a", 1, 0.9, 1.1, false}, {"b", "1.2 b", 1.2, 1.2, 1.2, true}, {"far", "9 c", 9, 8, 10, false}}, Marks: []Row{{Name: "OPT", Value: 0.8}}},
		"points":       &Points{X: "GB", Y: "ms", LogY: true, Groups: []string{"one", "two"}, Points: []Mark{{Point{1, 2, 1, 3}, hostile, 0, true}, {Point{2, 1, 1, 1}, "b", 0, true}, {Point{2, 5, 4, 6}, "c", 1, false}}},
		"shares":       Shares("share", []string{"one", "two"}, []Bar{{hostile, []float64{0.25, 1}}, {"b", []float64{0, 0.5}}}),
		"share lines":  &Lines{Share: true, Lines: []Line{{Name: "a", Points: []Point{At(1, 0.5), At(2, 0.75)}}}},
		"heat":         &Heat{X: "layer", Y: "head", Scale: "misses", Columns: []string{"0", "1"}, Rows: []string{hostile}, Values: [][]float64{{1, math.NaN()}}},
		"heat, values": &Heat{Columns: []string{"0", "1"}, Rows: []string{"0"}, Values: [][]float64{{1, 2}}},
	}
}

// Every drawing gives the same bytes twice, in every format. SVG is XML that shows the names as text.
func TestDrawings(t *testing.T) {
	begin := map[string]string{".pdf": "%PDF-", ".svg": "<svg ", ".png": "\x89PNG"}
	for name, d := range drawings() {
		for _, format := range Formats {
			f := Figure{Drawing: d, Title: "A < B", Size: Column}
			a, err := f.Draw(format)
			if err != nil {
				t.Fatalf("%s%s: %v", name, format, err)
			}
			b, err := f.Draw(format)
			if err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s%s: drawn twice, it differs (%v)", name, format, err)
			}
			if !strings.HasPrefix(string(a), begin[format]) {
				t.Errorf("%s%s begins with %.8q", name, format, a)
			}
			if format == ".svg" {
				wellFormed(t, name, a)
			}
		}
	}
	for _, d := range []Drawing{&Lines{}, &Dots{}, &Points{}, &Heat{}, Panels{{}}} {
		if _, err := (&Figure{Drawing: d, Size: Column}).Draw(".svg"); err == nil {
			t.Errorf("%T without data has a figure", d)
		}
	}
}

// A value of a bar has a row, which names its series if there are several. The axis is that of shares.
func TestShares(t *testing.T) {
	d := Shares("x", []string{"one", "two"}, []Bar{{"a", []float64{0.25, 0.5}}, {"b", []float64{1, 0}}})
	want := []Row{{"a", "0.250 one", 0.25, 0.25, 0.25, false}, {"", "0.500 two", 0.5, 0.5, 0.5, true}, {"b", "1.000 one", 1, 1, 1, false}, {"", "0.000 two", 0, 0, 0, true}}
	if !slices.Equal(d.Rows, want) || !d.Share {
		t.Errorf("%+v, expected %+v", d.Rows, want)
	}
	if row := Shares("x", nil, []Bar{{"a", []float64{0.25}}}).Rows[0]; row.Label != "0.250" {
		t.Errorf("an only series has the label %q", row.Label)
	}
	if _, y := (&Lines{Share: true, Lines: []Line{{Points: []Point{At(1, 0.5)}}}}).span(); y != [2]float64{0, 1} {
		t.Errorf("an axis of shares spans %v", y)
	}
}

// A logarithmic axis has ticks that have room, also for a small range.
func TestLogTicks(t *testing.T) {
	for _, s := range [][2]float64{{0.97, 1.03}, {0.9, 1.3}, {0.95, 3.5}, {0.95, 30}} {
		if n := len(logTicks(s[0], s[1], 18)); n < 3 || n > 18 {
			t.Errorf("%d ticks on %v", n, s)
		}
	}
}

func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	if bytes.ContainsRune(svg, 0x1b) || bytes.Contains(svg, []byte("<b>")) {
		t.Errorf("%s: a name is markup or an escape", name)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// The size is that of the figure at 300 dots per inch, and only White fills the background.
func TestBackgroundAndSize(t *testing.T) {
	for _, white := range []bool{false, true} {
		f := Figure{Drawing: drawings()["dots"], Size: Size{Width: 127, Height: 50.8}, White: white}
		text, err := f.Draw(".png")
		fatal.If(t, err)
		img, err := png.Decode(bytes.NewReader(text))
		fatal.If(t, err)
		if size := img.Bounds().Size(); size.X != 1500 || size.Y != 600 {
			t.Errorf("%v pixels, expected 1500 × 600", size)
		}
		if _, _, _, alpha := img.At(1, 1).RGBA(); (alpha != 0) != white {
			t.Errorf("white %v: the corner has alpha %d", white, alpha)
		}
	}
	if _, err := Format("figure.gif"); err == nil || !strings.Contains(err.Error(), ".pdf, .svg, .png") {
		t.Errorf("figure.gif: %v", err)
	}
	if format, err := Format("a.PDF"); err != nil || format != ".pdf" {
		t.Errorf("a.PDF: %s, %v", format, err)
	}
}

// Labels keep their order, lie within the range and are as far apart as there is room.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		at := make([]vg.Length, 1+r.IntN(12))
		for i := range at {
			at[i] = vg.Length(r.IntN(100))
		}
		const gap, low, high = 5, 10, 90
		moved := spread(at, gap, low, high)
		room := min(gap, (high-low)/max(1, vg.Length(len(at)-1)))
		for i, want := range spreadSlowly(slices.Sorted(slices.Values(at)), room, low, high) {
			if have := slices.Sorted(slices.Values(moved))[i]; math.Abs(float64(have-want)) > 1e-9 {
				t.Fatalf("%v moved to %v, expected %v at place %d", at, moved, want, i)
			}
		}
		for i := range at {
			if moved[i] < low-1e-9 || moved[i] > high+1e-9 {
				t.Fatalf("%v moved to %v, beyond %d to %d", at, moved, low, high)
			}
			for j := range at {
				if at[i] < at[j] && moved[j]-moved[i] < room-1e-9 {
					t.Fatalf("%v moved to %v: %d and %d are closer than %v", at, moved, i, j, room)
				}
			}
		}
	}
	for _, c := range [][2][]vg.Length{
		{{50, 50, 50}, {45, 50, 55}}, // around their mean
		{{50, 20, 53}, {49, 20, 54}},
		{{1, 2}, {0, 5}}, // at an end
		{{97, 98, 99, 40}, {90, 95, 100, 40}},
	} {
		if moved := spread(c[0], 5, 0, 100); !slices.Equal(moved, c[1]) {
			t.Errorf("%v moved to %v, expected %v", c[0], moved, c[1])
		}
	}
	far := []vg.Length{20, 40, 60}
	if moved := spread(far, 5, 0, 100); !slices.Equal(moved, far) {
		t.Errorf("labels with room moved to %v", moved)
	}
}

// spreadSlowly spreads sorted positions by the formula of isotonic regression: less k gaps, the k-th
// is the largest of the least means of ranges that hold it.
func spreadSlowly(at []vg.Length, gap, low, high vg.Length) (moved []vg.Length) {
	for k := range at {
		most := vg.Length(math.Inf(-1))
		for first := range k + 1 {
			least, sum := vg.Length(math.Inf(1)), vg.Length(0)
			for last := first; last < len(at); last++ {
				if sum += at[last] - gap*vg.Length(last); last >= k {
					least = min(least, sum/vg.Length(last-first+1))
				}
			}
			most = max(most, least)
		}
		moved = append(moved, min(max(most, low), high-gap*vg.Length(len(at)-1))+gap*vg.Length(k))
	}
	return moved
}

// The axis of lines fits the contenders. A bound that is far away does not press them together.
func TestSpanOfContenders(t *testing.T) {
	l := Lines{Lines: []Line{{Points: []Point{{1, 2, 2, 2}, {4, 3, 3, 3}}}, {Bound: true, Points: []Point{{1, 100, 100, 100}}}}}
	if x, y := l.span(); x != [2]float64{1, 4} || y[0] != 1.95 || y[1] != 3.05 {
		t.Errorf("x %v, y %v", x, y)
	}
	l.Lines = l.Lines[1:]
	if _, y := l.span(); y[0] >= 100 || y[1] <= 100 {
		t.Errorf("a bound alone has y %v", y)
	}
}

// A clipped axis ends at 1.5 times the largest value of the median contender. The name of a line that ends
// beyond the axis states its last value.
func TestClip(t *testing.T) {
	line := func(name string, bound bool, y ...float64) Line {
		return Line{Name: name, Bound: bound, Points: []Point{{1, y[0], y[0], y[0]}, {2, y[1], y[1], y[1]}}}
	}
	l := &Lines{Clip: true, Lines: []Line{line("a", false, 1, 2), line("b", false, 1, 1.5), line("far", false, 2, 9), line("opt", true, 1, 1), line("low", true, 0.1, 0.2)}}
	if _, y := l.span(); y != [2]float64{0.9, 3.1} { // 1 to 1.5 × 2, with a twentieth more
		t.Errorf("y %v", y)
	}
	f := Figure{Drawing: l, Size: Column}
	svg, err := f.Draw(".svg")
	fatal.If(t, err)
	for _, want := range []string{">a<", ">b<", ">far (9)<", ">opt<", ">low (0.2)<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in the figure", want)
		}
	}
	l.Clip = false
	if _, y := l.span(); y != [2]float64{0.6, 9.4} {
		t.Errorf("without Clip y %v", y)
	}
	if svg, err := f.Draw(".svg"); err != nil || strings.Contains(string(svg), "(9)") {
		t.Errorf("without Clip a name has a value (%v)", err)
	}
}

// Equal values of X stand below each other in all panels, although names, values of Y and the points'
// ends differ. All texts lie within the figure. One panel is its plot.
func TestPanelsAlign(t *testing.T) {
	small := []Line{{Name: "a", Points: []Point{{1, 0.1, 0.1, 0.1}, {4, 0.3, 0.3, 0.3}}}}
	large := []Line{{Name: "a longer name", Points: []Point{{2, 10001, 10001, 10001}, {8, 10002, 10002, 10002}}}}
	wide := &Lines{X: "x", Y: "y", LogX: true, Ticks: []float64{1, 2, 4, 8}, Lines: large}
	text := regexp.MustCompile(`<text x="([^"]+)"[^>]*>([^<]+)<`)
	for _, p := range []Panels{{{X: "own", Lines: small}, wide}, {{Y: "y", Lines: large}, {X: "x", LogX: true, Ticks: wide.Ticks, Lines: small}}} {
		svg, err := (&Figure{Drawing: p, Size: Column}).Draw(".svg")
		fatal.If(t, err)
		at := map[string][]float64{}
		for _, m := range text.FindAllStringSubmatch(string(svg), -1) {
			x, err := strconv.ParseFloat(m[1], 64)
			fatal.If(t, err)
			if end := vg.Length(x) + textStyle(draw.XLeft, draw.YCenter).Width(m[2]); m[2] != "y" && (x < 0 || end > vg.Length(Column.Width)*vg.Millimeter) {
				t.Errorf("%s stands from %v to %v", m[2], x, end)
			}
			at[m[2]] = append(at[m[2]], x)
		}
		for _, mark := range []string{"x", "1", "2", "4", "8"} {
			if x := at[mark]; len(x) != 2 || x[0] != x[1] {
				t.Errorf("%s stands at %v, expected twice the same", mark, x)
			}
		}
		if at["own"] != nil {
			t.Error("the panels have different axes of X")
		}
	}
	single, err := (&Figure{Drawing: wide, Size: Column}).Draw(".svg")
	fatal.If(t, err)
	panel, err := (&Figure{Drawing: Panels{wide}, Size: Column}).Draw(".svg")
	fatal.If(t, err)
	if !bytes.Equal(single, panel) {
		t.Error("one panel differs from its plot")
	}
}

// A heading stands above the drawing, in letters that fit its width.
func TestHeading(t *testing.T) {
	f := Figure{Drawing: drawings()["lines"], Title: strings.Repeat("long ", 60), Size: Column, Heading: true}
	with, err := f.Draw(".svg")
	fatal.If(t, err)
	f.Heading = false
	without, err := f.Draw(".svg")
	fatal.If(t, err)
	if strings.Count(string(with), f.Title) != 2 || strings.Count(string(without), f.Title) != 1 {
		t.Error("the title stands in other places than the heading and the element title")
	}
	f.Heading, f.Title = true, "short"
	short, err := f.Draw(".svg")
	fatal.If(t, err)
	if !bytes.Contains(short, []byte("font-size:9px")) || bytes.Contains(with, []byte("font-size:9px")) {
		t.Error("a long heading is no smaller than a short one")
	}
}

// A dark figure has the drawing of a light one, and none of its colours.
func TestDark(t *testing.T) {
	f := Figure{Drawing: drawings()["dots"], Size: Column, White: true}
	light, err := f.Draw(".svg")
	fatal.If(t, err)
	f.Dark = true
	dark, err := f.Draw(".svg")
	fatal.If(t, err)
	colour := regexp.MustCompile(":#[0-9A-F]{6}")
	if !bytes.Equal(colour.ReplaceAll(light, nil), colour.ReplaceAll(dark, nil)) {
		t.Error("the figures differ in more than colours")
	}
	for _, c := range colour.FindAll(light, -1) {
		if bytes.Contains(dark, c) {
			t.Errorf("the dark figure has the colour %s", c)
		}
	}
	if want := []byte("stroke:#F0883E"); !bytes.Contains(dark, want) {
		t.Errorf("no highlighted row in %s", want)
	}
}

// Texts of a PDF are in the encoding of its font, so that "÷" is one byte.
func TestEncodingOfPDF(t *testing.T) {
	pdf, err := (&Figure{Drawing: &Lines{Y: "a ÷ b", Lines: []Line{{Points: []Point{{1, 1, 1, 1}}}}}, Size: Column}).Draw(".pdf")
	fatal.If(t, err)
	found := false
	for _, part := range bytes.Split(pdf, []byte("stream\n")) {
		if r, err := zlib.NewReader(bytes.NewReader(part)); err == nil {
			text, _ := io.ReadAll(r) // the rest of the part is no data
			found = found || bytes.Contains(text, []byte("(a \xf7 b)"))
		}
	}
	if !found {
		t.Error("no text \"a ÷ b\" in Windows 1252")
	}
}

// A share that is not known has no dot.
func TestSharesUnknown(t *testing.T) {
	d := Shares("x", []string{"recall", "mass"}, []Bar{{Name: "a", Values: []float64{0.5, math.NaN()}}, {Name: "b", Values: []float64{math.NaN(), 0.25}}})
	if len(d.Rows) != 2 || d.Rows[0].Name != "a" || d.Rows[1].Name != "b" || d.Rows[1].Label != "0.250 mass" {
		t.Errorf("%+v", d.Rows)
	}
}

// A long name leaves room for the axis, and its ends are shown.
func TestDotsLongName(t *testing.T) {
	name := strings.Repeat("policy:", 60) + "end"
	d := &Dots{X: "x", Rows: []Row{{Name: name, Label: "0.5", Value: 0.5, Low: 0.5, High: 0.5}, {Name: "b", Label: "1", Value: 1, Low: 1, High: 1}}}
	svg, err := (&Figure{Drawing: d, Title: "t", Size: Column}).Draw(".svg")
	fatal.If(t, err)
	if text := string(svg); !strings.Contains(text, ">0.6<") || !strings.Contains(text, ">policy:") || !strings.Contains(text, "end</text>") || strings.Contains(text, name) {
		t.Errorf("the figure lacks a tick or the ends of the name:\n%s", text)
	}
}
