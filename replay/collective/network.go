package collective

import (
	"embed"
	"fmt"
	"math"
	"strings"

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
	GPU  string
	Link float64 // rate of a GPU's link in each direction, bytes/s
	PCIe bool    // the link is PCIe
	NCCL Fit
	// Kernels has no Basis if GPUs exchange over PCIe, where engines use NCCL.
	Kernels Fit
}

// Fit is the model of the all-reduces of one method.
type Fit struct {
	Constants
	// Basis has the GPUs whose all-reduces determine the constants: those with the same link rate,
	// or all with the same kind of link. It says if that is PCIe.
	Basis []string
	near  []point // all-reduces between GPUs with the same link rate
}

// New returns the network between some GPUs of a machine. Bridges join two GPUs, so more of them are
// an error.
func New(m *hardware.Machine, gpus int, lib *hardware.Library) (*Network, error) {
	if m.Bridged && gpus > 2 {
		return nil, fmt.Errorf("--bridge joins two GPUs, but %d exchange data: remove it, or choose 2", gpus)
	}
	rate, pcie := m.Peers()
	if rate == 0 {
		return nil, fmt.Errorf("GPU %s states no peer_bandwidth, its rate to other GPUs: choose another GPU or add it",
			m.GPU.Name)
	}
	points, err := published(lib)
	if err != nil {
		return nil, err
	}
	n := &Network{GPU: m.GPU.Name, Link: float64(rate), PCIe: pcie}
	n.NCCL, n.Kernels = newFit(of(points, NCCL), n.link()), newFit(of(points, Kernels), n.link())
	return n, nil
}

// Hop returns the time of a step between two GPUs, in seconds.
func (n *Network) Hop(f *Fit) float64 { return f.hop(n.link()) }

func (n *Network) link() link { return link{n.Link, n.PCIe} }

// newFit fits the constants of all points of a method, and from there those of a link to the points
// with the same link rate. Without such points it fits the share alone to those with the same kind of
// link. NCCL always keeps call and hop, because few of its small buffers are measured.
func newFit(points []point, l link) (f Fit) {
	same, _ := slice.Partition(points, func(p *point) bool { return p.pcie == l.pcie })
	first := shareAlone
	if f.near, _ = slice.Partition(same, func(p *point) bool { return p.link == l }); len(f.near) > 0 {
		if same = f.near; same[0].Method == Kernels {
			first = everything
		}
	}
	f.Constants = fit(same, fit(points, assumed, everything), first)
	f.Basis = slice.Distinct(same, func(p *point) string {
		if p.pcie {
			return p.Device + " over PCIe"
		}
		return p.Device
	})
	return f
}

// of returns the points of a method.
func of(points []point, by Method) []point {
	return slice.Filter(points, func(p point) bool { return p.Method == by })
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
		points = append(points, point{m, link{float64(rate), pcie}, m.Microseconds * 1e-6})
	}
	return points, nil
}

// mostKernels is the size from which on engines leave all-reduces to NCCL (max_size in
// vllm/distributed/device_communicators/custom_all_reduce.py of vLLM).
const mostKernels = 8 << 20

// AllReduce returns the seconds to sum a buffer of some bytes over some GPUs. One GPU takes no time.
// Kernels leave large buffers, and all over PCIe, to NCCL.
func (n *Network) AllReduce(by Method, gpus int, bytes float64) float64 {
	if gpus < 2 || bytes <= 0 {
		return 0
	}
	if by == Kernels && bytes < mostKernels && !n.PCIe {
		return n.Kernels.allReduce(by, n.link(), gpus, bytes)
	}
	return n.NCCL.allReduce(NCCL, n.link(), gpus, bytes)
}

// Basis says which constants all-reduces have, for notes.
func (n *Network) Basis(by Method) string {
	nccl := fmt.Sprintf("NCCL with constants of %s, about %.1f us for a call", strings.Join(n.NCCL.Basis, " and "), 1e6*n.NCCL.Call)
	if by == NCCL || n.PCIe {
		return nccl
	}
	return fmt.Sprintf("kernels of the engine with constants of %s, about %.1f us for a call, and from 8 MiB %s",
		strings.Join(n.Kernels.Basis, " and "), 1e6*n.Kernels.Call, nccl)
}

// allReduce returns the seconds of the formula, corrected by measurements of nearby sizes.
func (f *Fit) allReduce(by Method, l link, gpus int, bytes float64) float64 {
	formula := f.Constants.allReduce(by, l, float64(gpus), bytes)
	return formula * math.Exp(correction(f.near, &f.Constants, gpus, bytes))
}

// AllToAll returns the seconds of Exchange within one host.
func (n *Network) AllToAll(gpus int, bytes float64) float64 { return n.Exchange(gpus, bytes, 0) }

// AllGather returns the seconds until each GPU has a buffer of some bytes, of which each GPU had an
// equal part. It is derived: one call of NCCL, one hop, and the bytes at the rings' rate.
func (n *Network) AllGather(gpus int, bytes float64) float64 {
	if gpus < 2 {
		return 0
	}
	return n.Send(float64(gpus-1) / float64(gpus) * bytes)
}

// ReduceScatter returns the seconds of NCCL's reduce-scatter of a buffer of some bytes on each GPU, or of an
// all-gather to such buffers. An all-reduce is one after the other in a single call. So each takes half of its
// time and half a call.
func (n *Network) ReduceScatter(gpus int, bytes float64) float64 {
	if gpus < 2 || bytes <= 0 {
		return 0
	}
	return (n.AllReduce(NCCL, gpus, bytes) + n.NCCL.Call) / 2
}

// Send returns the seconds to send some bytes to another GPU, as between stages of a pipeline. It
// is derived: one call of NCCL, one hop, and the bytes at the rings' rate.
func (n *Network) Send(bytes float64) float64 {
	if bytes <= 0 {
		return 0
	}
	c := &n.NCCL.Constants
	return c.Call + c.hop(n.link()) + bytes/(c.Share*n.Link)
}
