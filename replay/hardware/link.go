package hardware

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Link connects host memory and GPU. Package transfer has the formulas for its constants.
type Link struct {
	Header
	Bandwidth    Fact[BytesPerSecond] `yaml:"bandwidth"`      // nominal, per direction
	PCIe         *PCIe                `yaml:"pcie" need:"no"` // absent if not PCI Express
	HostToDevice Paths                `yaml:"host_to_device"`
	DeviceToHost Paths                `yaml:"device_to_host"`
	Duplex       *Duplex              `yaml:"duplex" need:"no"` // absent if the directions do not slow each other
	Series       []Series             `yaml:"measurements" need:"no"`
}

// PCIe describes packets on the wire.
type PCIe struct {
	Generation     Fact[Number] `yaml:"generation" most:"6"`
	Lanes          Fact[Number] `yaml:"lanes" most:"32"`
	MaxPayload     Fact[Bytes]  `yaml:"max_payload"`      // MPS, largest payload of a packet
	MaxReadRequest Fact[Bytes]  `yaml:"max_read_request"` // MRRS, size of a read request by a copy engine
}

// Paths are the ways to move blocks in one direction. At least one exists.
type Paths struct {
	Call   *Curve `yaml:"call" need:"no"`   // copy engine, one driver call per block
	Batch  *Curve `yaml:"batch" need:"no"`  // copy engine, one driver call per batch
	Kernel *Curve `yaml:"kernel" need:"no"` // threads read or write host memory
}

// Curve is the time of one path as a function of blocks and their size.
type Curve struct {
	Launch Fact[Seconds] `yaml:"launch" zero:"ok"` // per launch: a kernel, a driver call
	// Submit is CPU time per descriptor, or for a kernel the time to translate an address, which
	// overlaps the bytes. Ahead is the number of descriptors submitted before the
	// engine begins with the first.
	Submit  Fact[Seconds] `yaml:"submit" need:"no" zero:"ok"`
	Ahead   Fact[Number]  `yaml:"ahead" need:"no" zero:"ok"`
	Page    Fact[Bytes]   `yaml:"page" need:"no"` // of a kernel: memory whose address is translated once
	Regimes []Regime      `yaml:"regimes"`        // by block size, ascending
	// SMs are not available to compute while a kernel runs. InFlight is the bytes that each SM
	// keeps in flight. With RoundTrip, they bound the rate.
	SMs       Fact[Number]  `yaml:"sms" need:"no" most:"1e5"`
	InFlight  Fact[Bytes]   `yaml:"in_flight" need:"no"`
	RoundTrip Fact[Seconds] `yaml:"round_trip" need:"no"`
}

// Regime holds the constants of blocks from a size on.
type Regime struct {
	From       Fact[Bytes]          `yaml:"from" zero:"ok"`
	Descriptor Fact[Seconds]        `yaml:"descriptor" zero:"ok"` // engine time per descriptor
	Rate       Fact[BytesPerSecond] `yaml:"rate"`                 // payload, in full packets
	// Inline is set if the submitting thread also moves the bytes, without an engine.
	Inline bool `yaml:"inline" need:"no"`
}

// Duplex holds the payload rates of both directions together if both are busy.
type Duplex struct {
	CopyEngine Fact[BytesPerSecond] `yaml:"copy_engine"`
	Kernel     Fact[BytesPerSecond] `yaml:"kernel"`
}

// Series holds points measured under the same conditions.
type Series struct {
	Name      string   `yaml:"name"`
	Path      string   `yaml:"path"`      // call, batch, kernel
	Direction string   `yaml:"direction"` // h2d, d2h, both (sum of the rates)
	Source    Citation `yaml:"source"`
	Note      string   `yaml:"note" need:"no"`
	// Fits is set if the path's constants are fitted to these points. Sets is set if one of them is
	// taken from a point.
	Fits bool `yaml:"fits" need:"no"`
	Sets bool `yaml:"sets" need:"no"`
	// Another kernel than the path's: its SMs, the bytes in flight per SM, the round trip.
	SMs       Fact[Number]  `yaml:"sms" need:"no" most:"1e5"`
	InFlight  Fact[Bytes]   `yaml:"in_flight" need:"no"`
	RoundTrip Fact[Seconds] `yaml:"round_trip" need:"no"`
	Points    []Point       `yaml:"points"`
}

// Point is one measurement: Blocks blocks moved in Launches launches.
type Point struct {
	Block    Measure[Bytes]          `yaml:"block" need:"no"` // unknown if the source does not state it
	Blocks   Measure[Number]         `yaml:"blocks"`
	Launches Measure[Number]         `yaml:"launches" need:"no"` // 1
	Rate     Measure[BytesPerSecond] `yaml:"rate" need:"no"`
	Time     Measure[Seconds]        `yaml:"time" need:"no"`
	AtMost   bool                    `yaml:"at_most" need:"no"` // the source gives an upper bound of the rate
	Why      string                  `yaml:"why" need:"no"`     // reason that the model misses it
}

// Seconds returns the measured time in seconds.
func (p *Point) Seconds() float64 {
	if p.Time.Known() {
		return float64(p.Time.Value)
	}
	return float64(p.Blocks.Value) * float64(p.Block.Value) / float64(p.Rate.Value)
}

// Names of paths and directions in files.
var (
	PathNames      = []string{"call", "batch", "kernel"}
	directionNames = []string{"h2d", "d2h", "both"}
)

// Named returns a path by its name, or nil.
func (p *Paths) Named(name string) *Curve {
	switch name {
	case "call":
		return p.Call
	case "batch":
		return p.Batch
	case "kernel":
		return p.Kernel
	}
	return nil
}

// direction is one direction of a link, as files name it.
type direction struct {
	name  string
	paths *Paths
}

func (l *Link) directions() []direction {
	return []direction{{"host_to_device", &l.HostToDevice}, {"device_to_host", &l.DeviceToHost}}
}

// suits reports that a kernel of the link takes more SMs than a GPU has. The kernel was then measured
// on a larger GPU.
func (l *Link) suits(gpu *GPU) error {
	for _, dir := range l.directions() {
		if c := dir.paths.Kernel; c != nil && c.SMs.Value > gpu.SMs.Value {
			return fmt.Errorf("%s: %s.kernel takes %g SMs, but GPU %s has %g: choose another link or GPU",
				l.Name, dir.name, c.SMs.Value, gpu.Name, gpu.SMs.Value)
		}
	}
	return nil
}

func (l *Link) check(f *faults) {
	for _, dir := range l.directions() {
		if dir.paths.Call == nil && dir.paths.Batch == nil && dir.paths.Kernel == nil {
			f.at(dir.name, "has no path, expected one of %s", strings.Join(PathNames, ", "))
		}
		for _, name := range PathNames {
			if c := dir.paths.Named(name); c != nil {
				c.check(f, dir.name+"."+name, l)
			}
		}
	}
	if d := l.Duplex; d != nil && max(d.CopyEngine.Value, d.Kernel.Value) > 2*l.Bandwidth.Value {
		f.at("duplex", "exceeds twice the link's %s", l.Bandwidth.Written)
	}
	l.checkDuplex(f)
	for i := range l.Series {
		l.Series[i].check(f, fmt.Sprintf("measurements[%d]", i))
	}
}

// checkDuplex refuses directions that together move less than half of one direction alone. A unit
// is then probably wrong, and overlapping transfers would be slower than sequential ones.
func (l *Link) checkDuplex(f *faults) {
	if l.Duplex == nil {
		return
	}
	for _, way := range []struct {
		field string
		both  *Fact[BytesPerSecond]
		paths []*Curve
	}{
		{"copy_engine", &l.Duplex.CopyEngine, []*Curve{l.HostToDevice.Call, l.HostToDevice.Batch, l.DeviceToHost.Call, l.DeviceToHost.Batch}},
		{"kernel", &l.Duplex.Kernel, []*Curve{l.HostToDevice.Kernel, l.DeviceToHost.Kernel}},
	} {
		alone := &Fact[BytesPerSecond]{}
		for _, c := range way.paths {
			for i := 0; c != nil && i < len(c.Regimes); i++ {
				if r := &c.Regimes[i].Rate; r.Value > alone.Value {
					alone = r
				}
			}
		}
		if way.both.Value < alone.Value/2 {
			f.at("duplex."+way.field, "%s is less than half of the %s of one direction alone", way.both.Written, alone.Written)
		}
	}
}

func (c *Curve) check(f *faults, path string, l *Link) {
	for i := range c.Regimes {
		r, at := &c.Regimes[i], fmt.Sprintf("%s.regimes[%d]", path, i)
		switch {
		case i == 0 && r.From.Value != 0:
			f.at(at+".from", "is %s, expected 0 B", r.From.Written)
		case i > 0 && r.From.Value <= c.Regimes[i-1].From.Value:
			f.at(at+".from", "is %s, expected more than %s", r.From.Written, c.Regimes[i-1].From.Written)
		}
		if r.Rate.Value > l.Bandwidth.Value {
			f.at(at+".rate", "%s exceeds the link's %s", r.Rate.Written, l.Bandwidth.Written)
		}
	}
	if halfWindow(&c.SMs, &c.InFlight, &c.RoundTrip) {
		f.at(path, windowFault)
	}
	if c.Ahead.Known() && !c.Submit.Known() {
		f.at(path+".ahead", "needs submit")
	}
	switch {
	case c.Page.Known() && !strings.HasSuffix(path, ".kernel"):
		f.at(path+".page", "is of the curve kernel alone")
	case c.Page.Known() && !c.Submit.Known():
		f.at(path+".page", "needs submit")
	}
}

// The largest values of a point. Its numbers have 63 bits when they are priced.
const (
	mostBlocks = 1e9
	mostMoved  = 1e18
)

// wholeCount reports whether a measure is a positive integer.
func wholeCount(m *Measure[Number]) bool {
	return m.Value >= 1 && m.Value <= mostBlocks && float64(m.Value) == math.Trunc(float64(m.Value))
}

// windowFault is the error if only part of the limit of a kernel's rate is given.
const windowFault = "is incomplete: in_flight and round_trip need each other and sms"

func halfWindow(sms *Fact[Number], inFlight *Fact[Bytes], roundTrip *Fact[Seconds]) bool {
	return (inFlight.Known() || roundTrip.Known()) && !(sms.Known() && inFlight.Known() && roundTrip.Known())
}

func (s *Series) check(f *faults, path string) {
	if halfWindow(&s.SMs, &s.InFlight, &s.RoundTrip) {
		f.at(path, windowFault+" (%s)", s.Name)
	}
	if !slices.Contains(PathNames, s.Path) {
		f.at(path+".path", "%q, expected %s%s (%s)", s.Path, strings.Join(PathNames, ", "), names.Nearest(s.Path, PathNames), s.Name)
	}
	if !slices.Contains(directionNames, s.Direction) {
		f.at(path+".direction", "%q, expected %s (%s)", s.Direction, strings.Join(directionNames, ", "), s.Name)
	}
	for i := range s.Points {
		p, at := &s.Points[i], fmt.Sprintf("%s.points[%d]", path, i)
		switch {
		case p.Rate.Known() == p.Time.Known():
			f.at(at, "needs either rate or time (%s)", s.Name)
		case p.Time.Known() && !p.Block.Known():
			f.at(at, "has a time but no block, so no rate: add the block's size (%s)", s.Name)
		case p.Block.Known() && p.Block.Value < 1:
			f.at(at+".block", "%s, expected at least 1 B (%s)", p.Block.Written, s.Name)
		}
		if !wholeCount(&p.Blocks) || p.Launches.Known() && !wholeCount(&p.Launches) {
			f.at(at, "expected whole numbers of blocks and launches, 1 to %s (%s)", Number(mostBlocks), s.Name)
		}
		if p.Block.Value*Bytes(p.Blocks.Value) > mostMoved {
			f.at(at, "moves more than %s (%s)", Bytes(mostMoved), s.Name)
		}
		if p.Launches.Known() && p.Launches.Value > p.Blocks.Value {
			f.at(at, "has more launches than blocks (%s)", s.Name)
		}
	}
}
