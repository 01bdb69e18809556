// Package figure draws plots for papers, pages and documents: as PDF, SVG or PNG, by default without
// background in the size of a column. Equal figures give equal bytes.
//
// Names stand next to the data, not in a legend. Lines differ by dashes and markers too, so
// figures can be printed in grey.
package figure

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Formats are the file name extensions of figures.
var Formats = []string{".pdf", ".svg", ".png"}

// Size is that of a figure, in millimetres. A height of 0 is the drawing's own.
type Size struct{ Width, Height float64 }

// Column is the size of figures by default: the width of a column of a paper with two.
var Column = Size{Width: 88}

// Bounds of a width or height in millimetres.
const (
	Least = 30
	Most  = 1000
)

const (
	textSize      = 7.5 // points
	pngDPI        = 300
	lineWidth     = 1.2 // points
	radius        = 2.2 // points, of a marker
	labelGap      = 1.2 * vg.Millimeter
	lineHeight    = 3.1 * vg.Millimeter // of a label
	headingSize   = 1.2                 // ÷ textSize
	headingHeight = 6 * vg.Millimeter
	edge          = 1 * vg.Millimeter    // around the figure
	rise          = 0.25 * vg.Millimeter // of a label over the middle of its row, because descenders are rare
)

// palette is that of Okabe and Ito (Color Universal Design, 2008), designed for readers without
// colour vision. It omits yellow, which is faint on white.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

// The colours of texts, of axes and of grids.
var (
	inkColor   = color.RGBA{0x22, 0x22, 0x22, 0xff}
	greyColor  = color.RGBA{0x77, 0x77, 0x77, 0xff}
	faintColor = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

// Drawing is the content of a figure.
type Drawing interface {
	// height returns the height that suits a width.
	height(width vg.Length) vg.Length
	// draw draws onto a canvas.
	draw(c draw.Canvas) error
}

// Panels are plots one above the other. Their areas lie at the same place and share the axis of X,
// which covers all points. Its text, marks and scale are those of the last plot.
type Panels []*Lines

func (p Panels) height(width vg.Length) (sum vg.Length) {
	for _, d := range p {
		sum += d.height(width)
	}
	return sum
}

func (p Panels) draw(c draw.Canvas) error {
	x := [2]float64{math.Inf(1), math.Inf(-1)}
	for _, l := range p {
		own, _ := l.span()
		x = [2]float64{min(x[0], own[0]), max(x[1], own[1])}
	}
	var plots []*linePlot
	var most margins
	for _, l := range p {
		shared, last := *l, p[len(p)-1]
		shared.X, shared.Ticks, shared.LogX = last.X, last.Ticks, last.LogX
		plot, err := shared.plot(x)
		if err != nil {
			return err
		}
		plots = append(plots, plot)
		most = margins{max(most.left, plot.left), max(most.right, plot.right)}
	}
	size := c.Max.Sub(c.Min)
	top, share := c.Max.Y, size.Y/p.height(size.X)
	for i, l := range p {
		panel := c
		panel.Max.Y, panel.Min.Y = top, top-share*l.height(size.X)
		plots[i].drawWithin(panel, most)
		top = panel.Min.Y
	}
	return nil
}

// Figure is a drawing with its size and colours.
type Figure struct {
	Drawing
	// Title describes an SVG figure for readers who cannot see it. With Heading, it also stands above
	// the drawing.
	Title   string
	Heading bool
	Size    Size
	// White fills the background, which is transparent otherwise.
	White bool
	// Dark chooses the colours of an SVG figure for a dark page. White is then the page's dark colour.
	Dark bool
}

// darkened replaces the colours of dots. The background is that of GitHub's dark theme.
var darkened = strings.NewReplacer(":#FFFFFF", ":#0D1117", ":#222222", ":#E6EDF3", ":#777777", ":#9198A1", ":#DDDDDD", ":#30363D",
	":#0072B2", ":#58A6FF", ":#D55E00", ":#F0883E")

func init() {
	fpdf.SetDefaultCatalogSort(true)
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
}

// Format returns the extension of a file name in lower case, or an error that lists Formats.
func Format(name string) (string, error) {
	ext := strings.ToLower(filepath.Ext(name))
	if !slices.Contains(Formats, ext) {
		return "", fmt.Errorf("file %q: expected a name that ends in %s", name, strings.Join(Formats, ", "))
	}
	return ext, nil
}

// Draw returns the file of a format.
func (f *Figure) Draw(format string) ([]byte, error) {
	width, height := vg.Length(f.Size.Width)*vg.Millimeter, vg.Length(f.Size.Height)*vg.Millimeter
	if height == 0 {
		if height = f.height(width); f.Heading {
			height += headingHeight
		}
	}
	var canvas vg.CanvasWriterTo
	switch format {
	case ".pdf":
		canvas = latinCanvas{vgpdf.New(width, height)}
	case ".png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI), vgimg.UseBackgroundColor(color.Transparent))}
	default:
		canvas = vgsvg.New(width, height)
	}
	c := draw.New(canvas)
	if f.White {
		c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}})
	}
	c = draw.Crop(c, edge, -edge, edge, -edge)
	if f.Heading {
		text := textStyle(draw.XCenter, draw.YTop)
		text.Font.Size *= min(headingSize, (c.Max.X-c.Min.X)/text.Width(shown(f.Title)))
		c.FillText(text, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Max.Y}, shown(f.Title))
		c = draw.Crop(c, 0, 0, 0, -headingHeight)
	}
	if err := f.draw(c); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	if format != ".svg" {
		return out.Bytes(), nil
	}
	svg := out.String()
	if f.Dark {
		svg = darkened.Replace(svg)
	}
	return portable(svg, f.Title), nil
}

// documentWidth is the width of figures of a document, in millimetres.
const documentWidth = 160

// ForDocument returns an SVG picture of a drawing for a document: on white, with its title above it.
func ForDocument(title string, d Drawing) ([]byte, error) {
	f := Figure{Drawing: d, Title: title, Heading: true, White: true, Size: Size{Width: documentWidth}}
	return f.Draw(".svg")
}

// portable returns an SVG picture with fallback fonts of the same metrics, for readers without the
// Liberation fonts. The title is for readers who cannot see it.
func portable(svg, title string) []byte {
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	head, body, _ := strings.Cut(svg, ">\n<g")
	_, head, _ = strings.Cut(head, "<svg")
	title = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(printable.Line(title))
	return []byte(printable.Text(fmt.Sprintf("<svg%s>\n<title>%s</title>\n<g%s", head, title, body)))
}

// latinCanvas writes texts in the encoding of its fonts, Windows 1252. A vgpdf.Canvas writes UTF-8.
type latinCanvas struct{ *vgpdf.Canvas }

// FillString writes a text.
func (c latinCanvas) FillString(f font.Face, at vg.Point, text string) {
	if encoded, err := charmap.Windows1252.NewEncoder().String(text); err == nil {
		text = encoded
	}
	c.Canvas.FillString(f, at, text)
}

// latin are characters that the fonts of PDF files lack, with their substitutes.
var latin = strings.NewReplacer("−", "-", "≈", "~", "≤", "<=", "≥", ">=", "→", "->", "∞", "inf")

// shown returns a text without characters that could not be drawn.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if r > 0xff && !strings.ContainsRune("…–—“”‘’•€™", r) {
			return '?'
		}
		return r
	}, latin.Replace(printable.Line(s)))
}

func textStyle(x draw.XAlignment, y draw.YAlignment) draw.TextStyle {
	return draw.TextStyle{Font: sans(), Color: inkColor, XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

func sans() font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(textSize)}
}

// newPlot returns a plot without background, with small texts.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = shown(x), shown(y)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color, axis.Label.Padding = sans(), inkColor, 0.6*vg.Millimeter
		axis.Tick.Label.Font, axis.Tick.Label.Color = sans(), inkColor
		axis.Color, axis.Tick.Color, axis.Padding = greyColor, greyColor, 0
		axis.Tick.Length = 0.8 * vg.Millimeter
		axis.LineStyle.Width, axis.Tick.LineStyle.Width = vg.Points(0.5), vg.Points(0.5)
	}
	return p
}

// grid returns the grid behind the data.
func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = faintColor, faintColor
	return g
}

// style is the appearance of the i-th of several series.
func style(i int) (draw.LineStyle, draw.GlyphStyle) {
	ink := palette[i%len(palette)]
	return draw.LineStyle{Color: ink, Width: vg.Points(lineWidth), Dashes: dashes[i%len(dashes)]},
		draw.GlyphStyle{Color: ink, Radius: vg.Points(radius), Shape: glyphs[i%len(glyphs)]}
}

// dashes and glyphs have different lengths, so that no two of the first 35 series look alike without
// colours.
var (
	dashes = [][]vg.Length{nil, {5, 1.5}, {1.5, 1.5}, {6, 1.5, 1.5, 1.5}, {3, 1}}
	glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}}
)

// spread moves positions apart by the least sum of squares, so that neighbours have at least the
// distance gap, within low and high. It keeps their order. Positions that touch lie around the mean of
// theirs, unless an end of the range moves them.
func spread(at []vg.Length, gap, low, high vg.Length) []vg.Length {
	order := slice.Indices(len(at))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	if n := vg.Length(len(at) - 1); n > 0 && gap*n > high-low {
		gap = (high - low) / n
	}
	// A group begins with the position of rank first. The mean of its positions puts that one at mean.
	type group struct{ first, mean, n vg.Length }
	var groups []group
	for k, i := range order {
		g := group{vg.Length(k), at[i], 1}
		for len(groups) > 0 && groups[len(groups)-1].mean+gap*groups[len(groups)-1].n > g.mean {
			last := groups[len(groups)-1]
			g = group{last.first, (last.mean*last.n + (g.mean-gap*last.n)*g.n) / (last.n + g.n), last.n + g.n}
			groups = groups[:len(groups)-1]
		}
		groups = append(groups, g)
	}
	moved := slices.Clone(at)
	for _, g := range groups {
		begin := min(max(g.mean, low+gap*g.first), high-gap*(vg.Length(len(at)-1)-g.first))
		for k := range int(g.n) {
			moved[order[int(g.first)+k]] = begin + gap*vg.Length(k)
		}
	}
	return moved
}
