package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// Tolerance is the relative error above which a point counts as missed.
const Tolerance = 0.15

// Comparison compares the model of a data file with one measurement in it.
type Comparison struct {
	Item     string   `json:"item"` // link or drive
	Series   string   `json:"series"`
	Path     string   `json:"path"` // call h2d, …; read for drives
	Point    string   `json:"point"`
	Measured float64  `json:"measured_bytes_per_second"`
	AtMost   bool     `json:"at_most,omitempty"`        // Measured is a bound
	Model    *float64 `json:"model_bytes_per_second"`   // null if the source does not state the block size
	Error    *float64 `json:"error"`                    // error of the time: model ÷ measured − 1, null for bounds that hold
	Sets     bool     `json:"sets_constants,omitempty"` // a constant is taken from the series, so it does not test the model
	LeftOut  *float64 `json:"leave_one_out_error"`      // null if the constants are not fitted to the series
	Source   string   `json:"source"`
	Why      string   `json:"why,omitempty"` // reason that the model misses it
	Kind     string   `json:"kind"`          // link or drive
}

// Own reports whether a script of this repository measured the point. Others are published.
func (c *Comparison) Own() bool { return strings.HasPrefix(c.Source, "scripts/") }

// Missed reports whether the error exceeds Tolerance. If the leave-one-out error is known, it
// counts instead.
func (c *Comparison) Missed() bool {
	e := c.Error
	if c.LeftOut != nil {
		e = c.LeftOut
	}
	return e != nil && math.Abs(*e) > Tolerance
}

// Compare compares every measurement of a library's links and drives with their models.
func Compare(lib *hardware.Library) ([]Comparison, error) {
	var all []Comparison
	for _, it := range lib.Items(hardware.KindLink) {
		l := it.(*hardware.Link)
		rows, err := compareLink(l)
		if err != nil {
			return nil, fmt.Errorf("link %s: %w", l.Name, err)
		}
		all = append(all, rows...)
	}
	for _, it := range lib.Items(hardware.KindDrive) {
		d := it.(*hardware.Drive)
		rows, err := compareDrive(d)
		if err != nil {
			return nil, fmt.Errorf("drive %s: %w", d.Name, err)
		}
		all = append(all, rows...)
	}
	return all, nil
}

func compareLink(l *hardware.Link) (rows []Comparison, err error) {
	left, err := leftOutOf(l)
	if err != nil {
		return nil, err
	}
	link := transfer.NewLink(l)
	for i := range l.Series {
		s := &l.Series[i]
		for j := range s.Points {
			row := Comparison{Item: l.Name, Series: s.Name, Path: s.Path + " " + s.Direction, Sets: s.Sets, Source: string(s.Source), Why: s.Points[j].Why, Kind: "link"}
			if err := row.link(l, link, s, &s.Points[j]); err != nil {
				return nil, fmt.Errorf("measurements %s: %w", s.Name, err)
			}
			if e, ok := left[[2]int{i, j}]; ok && !math.IsNaN(e) {
				row.LeftOut = &e
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// link fills in the model's prediction of a point.
func (c *Comparison) link(l *hardware.Link, link *transfer.Link, s *hardware.Series, p *hardware.Point) error {
	c.AtMost = p.AtMost
	if !p.Block.Known() {
		c.Point = fmt.Sprintf("%g blocks of unknown size", float64(p.Blocks.Value))
		c.Measured = float64(p.Rate.Value)
		return nil
	}
	request := requestOf(p)
	c.Point = fmt.Sprintf("%s × %d", p.Block.Written, request.Descriptors)
	if request.Launches > 1 {
		c.Point += fmt.Sprintf(" in %d launches", request.Launches)
	}
	c.Measured = float64(request.Bytes) / p.Seconds()
	seconds, err := modelOf(l, link, s, request)
	if err != nil {
		return err
	}
	rate := float64(request.Bytes) / seconds
	c.Model = &rate
	if e := relative(seconds, p.Seconds()); !p.AtMost || e < -1e-3 { // a bound holds up to rounding
		c.Error = &e
	}
	return nil
}

func requestOf(p *hardware.Point) transfer.Request {
	return requestFor(int64(p.Block.Value), int64(p.Blocks.Value), max(1, int64(p.Launches.Value)))
}

// requestFor returns the request for blocks of a table.
func requestFor(bytes, blocks, launches int64) transfer.Request {
	align := transfer.Alignment(bytes)
	return transfer.Request{Descriptors: blocks, Bytes: blocks * bytes, Launches: launches, Align: align}
}

// modelOf prices a request on the path of a series.
func modelOf(l *hardware.Link, link *transfer.Link, s *hardware.Series, r transfer.Request) (float64, error) {
	m := mechanismOf(s.Path)
	if s.Direction == "both" { // half of it in each direction
		half := r
		half.Descriptors, half.Bytes = (r.Descriptors+1)/2, r.Bytes/2
		fetch, err1 := link.Path(transfer.HostToDevice, m)
		store, err2 := link.Path(transfer.DeviceToHost, m)
		if err := cmp.Or(err1, err2); err != nil {
			return 0, err
		}
		return link.Both(m, fetch.Cost(half), store.Cost(half)), nil
	}
	direction := directionOf(s.Direction)
	if s.InFlight.Known() { // another kernel on the same path
		c := *pathsOf(l, direction).Named(s.Path)
		c.SMs, c.InFlight, c.RoundTrip = s.SMs, s.InFlight, s.RoundTrip // it keeps other bytes in flight
		return transfer.NewCurve(&c, transfer.PacketsOf(l, direction, m)).Time(r), nil
	}
	c, err := link.Path(direction, m)
	if err != nil {
		return 0, err
	}
	return c.Time(r), nil
}

func pathsOf(l *hardware.Link, d transfer.Direction) *hardware.Paths {
	if d == transfer.HostToDevice {
		return &l.HostToDevice
	}
	return &l.DeviceToHost
}

// mechanismOf returns the mechanism of a path that hardware.Load has checked.
func mechanismOf(name string) transfer.Mechanism {
	return transfer.Mechanism(slices.Index(hardware.PathNames, name))
}

func directionOf(name string) transfer.Direction {
	if name == "d2h" {
		return transfer.DeviceToHost
	}
	return transfer.HostToDevice
}

// Fitted is one path whose constants are fitted to series of its file.
type Fitted struct {
	Path, Direction string
	Form            Form
	Points          []Point
	origin          [][2]int // series and point of each
}

// FittedPaths lists the paths of a link that are marked as fitted, with their points.
func FittedPaths(l *hardware.Link) (fitted []Fitted) {
	for i := range l.Series {
		s := &l.Series[i]
		if !s.Fits {
			continue
		}
		at := slices.IndexFunc(fitted, func(f Fitted) bool { return f.Path == s.Path && f.Direction == s.Direction })
		if at < 0 {
			at = len(fitted)
			fitted = append(fitted, Fitted{Path: s.Path, Direction: s.Direction, Form: FormOf(l, directionOf(s.Direction), s.Path)})
		}
		f := &fitted[at]
		for j := range s.Points {
			f.Points = append(f.Points, Point{Request: requestOf(&s.Points[j]), Seconds: s.Points[j].Seconds()})
			f.origin = append(f.origin, [2]int{i, j})
		}
	}
	return fitted
}

// FormOf returns the form of a link's path. Its rates are bounded by the measured rate of large
// copies, or by the link's rate without packet headers.
func FormOf(l *hardware.Link, d transfer.Direction, path string) Form {
	paths := pathsOf(l, d)
	c, packets := paths.Named(path), transfer.PacketsOf(l, d, mechanismOf(path))
	submits := c.Submit.Known()
	form := Form{Batch: submits && path == "batch", Translate: submits && path == "kernel", Packets: packets, SMs: float64(c.SMs.Value), MaxRate: packets.Ceiling(float64(l.Bandwidth.Value))}
	if call := paths.Call; call != nil {
		if rate := call.Regimes[len(call.Regimes)-1].Rate; rate.Status == hardware.Measured {
			form.MaxRate = float64(rate.Value)
		}
	}
	for i := range c.Regimes {
		form.From = append(form.From, float64(c.Regimes[i].From.Value))
		form.Inline = append(form.Inline, c.Regimes[i].Inline)
	}
	return form
}

// leftOutOf returns the leave-one-out errors of a link's fitted points.
func leftOutOf(l *hardware.Link) (map[[2]int]float64, error) {
	left := map[[2]int]float64{}
	for _, f := range FittedPaths(l) {
		r, err := Curve(f.Points, f.Form)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", f.Path, f.Direction, err)
		}
		for i, at := range f.origin {
			left[at] = r.LeftOut[i]
		}
	}
	return left, nil
}

func compareDrive(d *hardware.Drive) (rows []Comparison, err error) {
	ssd := transfer.NewSSD(d, 1, 1)
	for i := range d.Series {
		s := &d.Series[i]
		var left []float64
		if s.Fits {
			r, err := Drive(DrivePoints(s), float64(d.ReadBandwidth.Value))
			if err != nil {
				return nil, fmt.Errorf("measurements %s: %w", s.Name, err)
			}
			left = r.LeftOut
		}
		for j, p := range DrivePoints(s) {
			model := ssd.Rate(p.Depth, p.Block)
			e := relative(p.Rate, model)
			row := Comparison{Item: d.Name, Series: s.Name, Path: "read", Point: fmt.Sprintf("%s at depth %g", s.Points[j].Block.Written, p.Depth),
				Measured: p.Rate, Model: &model, Error: &e, Sets: s.Sets, Source: string(s.Source), Why: s.Points[j].Why, Kind: "drive"}
			if left != nil {
				row.LeftOut = &left[j]
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// DrivePoints returns the points of a series.
func DrivePoints(s *hardware.DriveSeries) (points []DrivePoint) {
	for i := range s.Points {
		p := &s.Points[i]
		points = append(points, DrivePoint{float64(p.Depth.Value), float64(p.Block.Value), p.BytesPerSecond()})
	}
	return points
}
