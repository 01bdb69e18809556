package transfer

import (
	"math"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Curve is the time of a path as a function of the number and size of pieces. For N pieces of b
// bytes on average, with constants by the regime of b:
//
//	engine = N·descriptor + N·forward(b) / wire rate
//	T      = launches·launch + submit·min(N, ahead) + max(submit·(N − min(N, ahead)), engine)
//
// ahead is the number of descriptors that the driver submits before the engine begins. It is 0 for
// single calls, whose submission and engine overlap. For batches it is the whole batch, up to the
// driver's queue. A kernel submits nothing. Its submit is the time in which the host translates the
// address of a page, while bytes move. The pages that pieces touch take the place of N there. A
// kernel's rate is at most SMs × bytes in flight ÷ round trip.
//
// In an inline regime the submitting thread moves the bytes. After its queue is full, each further
// descriptor waits as well:
//
//	T = launches·launch + max(submit·N, engine) + submit·(N − min(N, ahead))
type Curve struct {
	Launch  float64 // s per launch
	Submit  float64 // s per descriptor
	Ahead   float64
	Page    float64  // bytes of a page whose address is translated once, 0 if each piece has its own
	Regimes []Regime // by From, ascending, the first at 0
	SMs     float64
	Packets Packets
	// BothWays is the link's rate in both directions together, in bytes/s. It is 0 if the
	// directions do not slow each other.
	BothWays float64
}

// Regime holds the constants of pieces of at least From bytes.
type Regime struct {
	From       float64 // bytes
	Descriptor float64 // s
	Rate       float64 // bytes/s of payload in full packets
	Inline     bool    // the submitting thread moves the bytes
}

// NewCurve returns a curve with the constants of a data file.
func NewCurve(c *hardware.Curve, p Packets) *Curve {
	curve := &Curve{Launch: float64(c.Launch.Value), Submit: float64(c.Submit.Value), Ahead: float64(c.Ahead.Value), Page: float64(c.Page.Or(0)), SMs: float64(c.SMs.Value), Packets: p}
	limit := math.Inf(1)
	if c.InFlight.Known() {
		limit = float64(c.SMs.Value) * float64(c.InFlight.Value) / float64(c.RoundTrip.Value)
	}
	for _, r := range c.Regimes {
		curve.Regimes = append(curve.Regimes, Regime{float64(r.From.Value), float64(r.Descriptor.Value), min(limit, float64(r.Rate.Value)), r.Inline})
	}
	return curve
}

// regime returns the last regime that begins at or below b.
func (c *Curve) regime(b float64) *Regime {
	i := len(c.Regimes) - 1
	for i > 0 && c.Regimes[i].From > b {
		i--
	}
	return &c.Regimes[i]
}

// piece returns the engine's time for a piece of b bytes, divided into descriptor and bytes.
func (c *Curve) piece(g *Regime, b, align float64) (descriptor, bytes float64) {
	return g.Descriptor, c.Packets.Forward(b, align) * c.Packets.efficiency() / g.Rate
}

// Time returns Cost(r).Seconds.
func (c *Curve) Time(r Request) float64 {
	if r.Descriptors == 0 {
		return 0
	}
	n := float64(r.Descriptors)
	b := float64(r.Bytes) / n
	g := c.regime(b)
	descriptor, bytes := c.piece(g, b, float64(r.Align))
	engine := n * (descriptor + bytes)
	return float64(r.Launches)*c.Launch + engine + c.waits(r.pages(c.Page), engine, g.Inline)
}

// waits returns the time that submission of n descriptors, or translation of n pages, adds to the
// engine's time.
func (c *Curve) waits(n, engine float64, inline bool) float64 {
	first := math.Min(n, c.Ahead)
	if inline {
		return math.Max(0, c.Submit*n-engine) + c.Submit*(n-first)
	}
	return c.Submit*first + math.Max(0, c.Submit*(n-first)-engine)
}

// Cost prices a request.
func (c *Curve) Cost(r Request) Cost {
	if r.Descriptors == 0 {
		return Cost{}
	}
	n := float64(r.Descriptors)
	b := float64(r.Bytes) / n
	g, align := c.regime(b), float64(r.Align)
	cost := Cost{Bytes: r.Bytes, Descriptors: r.Descriptors, SMs: c.SMs,
		WireForward: n * c.Packets.Forward(b, align), WireBack: n * c.Packets.Back(b, align)}
	descriptor, bytes := c.piece(g, b, align)
	by := Causes{Launch: float64(r.Launches) * c.Launch, Descriptor: n * descriptor, Link: n * bytes}
	by.Submit = c.waits(r.pages(c.Page), by.Descriptor+by.Link, g.Inline)
	cost.By, cost.Seconds = by, by.Launch+by.Submit+by.Descriptor+by.Link
	if c.BothWays > 0 {
		cost.Load = float64(r.Bytes) / cost.Seconds / c.BothWays
	}
	return cost
}
