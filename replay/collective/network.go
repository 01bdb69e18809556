package collective

import (
	"embed"
	"fmt"
	"math"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

//go:embed data
var bundled embed.FS

const file = "all-reduce.csv"

// Most is the largest number of GPUs that the model prices: those of the measured hosts.
const Most = 8

// Network prices communication between the GPUs of a host, and exchanges between hosts.
type Network struct {
	GPU       string
	Link      float64 // rate of a GPU's link in each direction, bytes/s
	Constants Constants
	// Basis has the GPUs whose all-reduces determine the constants: those with the same link rate,
	// or all with the same kind of link. It says if that is PCIe.
	Basis []string
	near  []point // all-reduces between GPUs with the same link rate
}

// New returns the network between the GPUs of a machine.
func New(m *hardware.Machine, lib *hardware.Library) (*Network, error) {
	rate, pcie := m.Peers()
	if rate == 0 {
		return nil, fmt.Errorf("GPU %s states no peer_bandwidth, its rate to other GPUs: choose another GPU or add it",
			m.GPU.Name)
	}
	points, err := published(lib)
	if err != nil {
		return nil, err
	}
	n := &Network{GPU: m.GPU.Name, Link: float64(rate)}
	points = alike(points, pcie)
	if n.near, _ = slice.Partition(points, func(p *point) bool { return p.link == n.Link }); len(n.near) > 0 {
		points = n.near
	}
	n.Constants, n.Basis = fit(points), slice.Distinct(points, func(p *point) string {
		if pcie {
			return p.Device + " over PCIe"
		}
		return p.Device
	})
	return n, nil
}

// alike returns the points of one kind of link.
func alike(points []point, pcie bool) []point {
	return slice.Filter(points, func(p point) bool { return p.pcie == pcie })
}

// published returns the published measurements.
func published(lib *hardware.Library) ([]point, error) {
	f, err := bundled.Open("data/" + file)
	if err != nil {
		return nil, err
	}
	rows, err := ReadCSV(f, "bundled:"+file)
	if err != nil {
		return nil, err
	}
	return pointsOf(rows, "bundled:"+file, lib)
}

// pointsOf finds the links of measurements. Errors name the line in the file.
func pointsOf(rows []Measurement, file string, lib *hardware.Library) ([]point, error) {
	var points []point
	for i := range rows {
		m := &rows[i]
		machine, err := lib.Machine(m.Device)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, m.Line, err)
		}
		rate, pcie := machine.Peers()
		if rate == 0 {
			return nil, fmt.Errorf("%s:%d: GPU %s states no peer_bandwidth", file, m.Line, machine.GPU.Name)
		}
		m.Device = machine.GPU.Name // which may have been an alias
		points = append(points, point{m, float64(rate), pcie, m.Microseconds * 1e-6})
	}
	return points, nil
}

// AllReduce returns the seconds to sum a buffer of some bytes over some GPUs. One GPU takes no time.
func (n *Network) AllReduce(gpus int, bytes float64) float64 {
	if gpus < 2 || bytes <= 0 {
		return 0
	}
	formula := n.Constants.allReduce(n.Link, float64(gpus), bytes)
	return formula * math.Exp(correction(n.near, &n.Constants, gpus, bytes))
}

// AllToAll returns the seconds of Exchange within one host.
func (n *Network) AllToAll(gpus int, bytes float64) float64 { return n.Exchange(gpus, bytes, 0) }

// AllGather returns the seconds until each GPU has a buffer of some bytes, of which each GPU had an
// equal part. It is derived: each GPU receives as much as in an all-to-all of that buffer.
func (n *Network) AllGather(gpus int, bytes float64) float64 { return n.AllToAll(gpus, bytes) }

// Send returns the seconds to send some bytes to another GPU, as between stages of a pipeline. It
// is derived: one call, one hop, and the bytes at the rings' rate.
func (n *Network) Send(bytes float64) float64 {
	if bytes <= 0 {
		return 0
	}
	return n.Constants.Call + n.Constants.Hop + bytes/(n.Constants.Share*n.Link)
}
