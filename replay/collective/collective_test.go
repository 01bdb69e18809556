package collective

import (
	"bytes"
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/tabletest"
	"github.com/kvreplay/kvreplay/replay/hardware"
)

var update = flag.Bool("update", false, "rewrite the tables of README.md")

func library(t *testing.T) *hardware.Library {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	return lib
}

func network(t *testing.T, machine string) *Network {
	t.Helper()
	lib := library(t)
	m, err := lib.Machine(machine)
	fatal.If(t, err)
	n, err := New(m, Most, lib)
	fatal.If(t, err)
	return n
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s is %g, expected %g", what, got, want)
	}
}

// byHand is a network of 100 GB/s: calls of 10 us, hops of 1 us, and half of the rate.
func byHand() *Network {
	c := Fit{Constants: Constants{Call: 10e-6, Hop: 1e-6, Share: 0.5}, Basis: []string{"hand"}}
	return &Network{Link: 100e9, NCCL: c, Kernels: c}
}

// By hand: 8 GPUs reduce 4 MB by Simple of NCCL. A call takes 10 us · 8.4/6.6, each of 2·3 hops 17/3 us, and
// 7 MB at 50 GB/s 140 us. They reduce 50 KB by LL. A call takes 10 us, each of 2·3 hops 1 us, and 87.5 KB at
// 25 GB/s 3.5 us. A two-shot kernel has one hop. A one-shot kernel reads 35 KB of 5 KB in 0.7 us, without a hop.
func TestByHand(t *testing.T) {
	n := byHand()
	const simple, hop = 10e-6 * 8.4 / 6.6, 1e-6 * 17 / 3
	near(t, "all-reduce", n.AllReduce(NCCL, 8, 4e6), simple+6*hop+140e-6)
	near(t, "all-reduce of 2 GPUs", n.AllReduce(NCCL, 2, 4e6), simple+2*hop+80e-6)
	near(t, "small all-reduce", n.AllReduce(NCCL, 8, 5e4), 10e-6+6e-6+3.5e-6)
	near(t, "two-shot kernel", n.AllReduce(Kernels, 8, 4e6), 10e-6+1e-6+140e-6)
	near(t, "one-shot kernel", n.AllReduce(Kernels, 8, 5e3), 10e-6+0.7e-6)
	near(t, "kernel of 2 GPUs", n.AllReduce(Kernels, 2, 4e6), 10e-6+80e-6)
	near(t, "large buffer", n.AllReduce(Kernels, 8, 8<<20), n.AllReduce(NCCL, 8, 8<<20))
	near(t, "all-to-all", n.AllToAll(8, 4e6), 35e-6+70e-6)
	near(t, "all-gather", n.AllGather(8, 4e6), 11e-6+70e-6)
	near(t, "send", n.Send(4e6), 11e-6+80e-6)
	for what, v := range map[string]float64{
		"one GPU":  n.AllReduce(NCCL, 1, 4e6) + n.AllToAll(1, 4e6) + n.AllGather(1, 4e6),
		"no bytes": n.AllReduce(Kernels, 8, 0) + n.AllToAll(8, 0) + n.AllGather(8, 0) + n.Send(0),
	} {
		if v != 0 {
			t.Errorf("%s: %g s, expected 0", what, v)
		}
	}
	n.PCIe = true // engines have no kernels, and a hop takes 1.67 us
	near(t, "kernels over PCIe", n.AllReduce(Kernels, 8, 4e6), 10e-6+10e-6+140e-6)
	near(t, "all-to-all over PCIe", n.AllToAll(8, 4e6), 10e-6+1e-5/6+70e-6)
	near(t, "send over PCIe", n.Send(4e6), 10e-6+1e-5/6+80e-6)
}

// All-gathers and reduce-scatters of NCCL between eight H100: the mean time of the transfer in us, by MiB of the
// buffer. Source: Megatron-LM, pull request 5596, columns "off", https://github.com/NVIDIA/Megatron-LM/pull/5596.
func TestReduceScatter(t *testing.T) {
	n := network(t, "h100")
	for mib, measured := range map[float64][]float64{2: {20.2, 18.6}, 8: {43.4, 47}, 32: {118.9, 112.6}, 128: {385.3}} {
		have := 1e6 * n.ReduceScatter(8, mib*(1<<20))
		for _, want := range measured {
			if math.Abs(have/want-1) > 0.25 {
				t.Errorf("%g MiB: %.1f us, measured %.1f", mib, have, want)
			}
		}
	}
	hand := byHand()
	near(t, "an all-reduce in two calls", 2*hand.ReduceScatter(8, 4e6), hand.AllReduce(NCCL, 8, 4e6)+hand.NCCL.Call)
	if none := hand.ReduceScatter(1, 4e6) + hand.ReduceScatter(8, 0); none != 0 {
		t.Errorf("%g s without GPUs or bytes", none)
	}
}

// By hand, with the same constants: 16 GPUs on two hosts send 4 MB. 7/16 of it pass the link in 35 us,
// and 8/16 the network of 20 GB/s in 100 us. 12 GPUs are 6 a host, and half of their bytes pass the
// network. A fast network leaves the link as the limit.
func TestExchangeByHand(t *testing.T) {
	n := byHand()
	near(t, "16 GPUs", n.Exchange(16, 4e6, 20e9), 35e-6+100e-6)
	near(t, "12 GPUs", n.Exchange(12, 4e6, 20e9), 35e-6+100e-6)
	near(t, "16 GPUs, fast network", n.Exchange(16, 4e6, 50e9), 35e-6+40e-6)
	near(t, "16 GPUs, faster network", n.Exchange(16, 4e6, 200e9), 35e-6+35e-6)
	near(t, "one host", n.Exchange(8, 4e6, 0), n.AllToAll(8, 4e6))
	if v := n.Exchange(1, 4e6, 0) + n.Exchange(16, 0, 0); v != 0 {
		t.Errorf("one GPU or no bytes take %g s", v)
	}
}

// Tokens are sent once to each host. A simulation draws the experts of tokens from 32 GPUs of 4 hosts, and
// counts the copies between hosts and within them.
func TestForward(t *testing.T) {
	const gpus, host, experts, tokens, size = 32, 8, 6, 20000, 1e3
	rng, far, near := rand.New(rand.NewPCG(1, 1)), 0., 0.
	for range tokens {
		to := map[int]bool{}
		for range experts {
			gpu := rng.IntN(gpus)
			to[gpu/host] = true
			if gpu%host != 0 { // the host's first GPU receives the token
				near++
			}
		}
		for h := range to {
			if h != 0 { // the token's own host
				far++
			}
		}
	}
	n := byHand()
	for name, network := range map[string]float64{"network": 1e9, "link": 1e15} {
		want := max(near*size/(n.NCCL.Share*n.Link), far*size/network)
		if got := n.Forward(gpus, experts, tokens*experts*size, network) - exchangeStart; math.Abs(got/want-1) > 0.02 {
			t.Errorf("%s: %g s, the simulation has %g s", name, got, want)
		}
	}
	if got, want := n.Forward(8, experts, 4e6, 0), n.Exchange(8, 4e6, 0); math.Abs(got-want) > 1e-15 {
		t.Errorf("one host: %g s, expected %g s", got, want)
	}
	if v := n.Forward(1, experts, 4e6, 0) + n.Forward(16, experts, 0, 0); v != 0 {
		t.Errorf("one GPU or no bytes take %g s", v)
	}
}

// A measured time 20 % above the formula corrects the same size by 1.2^(1/1.5). It corrects half an
// octave further by less. It does not correct two octaves further, or another number of GPUs.
func TestCorrection(t *testing.T) {
	c := Constants{Call: 10e-6, Hop: 1e-6, Share: 0.5}
	p := point{Measurement: &Measurement{Workers: 4, Bytes: 1 << 20}, link: link{rate: 100e9}}
	p.seconds = 1.2 * p.guess(&c)
	of := func(workers int, bytes float64) float64 { return math.Exp(correction([]point{p}, &c, workers, bytes)) }
	near(t, "same size", of(4, 1<<20), math.Pow(1.2, 1/1.5))
	w := math.Exp(-0.5)
	near(t, "half an octave", of(4, math.Sqrt2*(1<<20)), math.Pow(1.2, w/(w+0.5)))
	near(t, "two octaves", of(4, 1<<22), 1)
	near(t, "other GPUs", of(8, 1<<20), 1)
}

// A fit to times of the formula finds its constants. Constants before the first keep their start.
func TestFitFindsConstants(t *testing.T) {
	want := Constants{Call: 12e-6, Hop: 4e-6, Share: 0.5}
	for by := range methods {
		var points []point
		for workers := 2; workers <= 8; workers *= 2 {
			for bytes := 1 << 10; bytes <= 1<<26; bytes *= 2 {
				p := point{Measurement: &Measurement{Workers: workers, Bytes: bytes, Method: by}, link: link{rate: 300e9}}
				p.seconds = p.guess(&want)
				points = append(points, p)
			}
		}
		got := fit(points, assumed, everything)
		for _, v := range [][2]float64{{got.Call, want.Call}, {got.Hop, want.Hop}, {got.Share, want.Share}} {
			if math.Abs(v[0]/v[1]-1) > 0.05 {
				t.Errorf("%s: fit %+v, expected %+v", by, got, want)
			}
		}
		if got := fit(points, assumed, shareAlone); got.Call != assumed.Call || got.Hop != assumed.Hop || got.Share == assumed.Share {
			t.Errorf("%s: fit of the share alone %+v, from %+v", by, got, assumed)
		}
	}
}

// GPUs with the link of a measured GPU have its constants, others those of all with the same kind of
// link. GPUs without links of their own use PCIe.
func TestBasis(t *testing.T) {
	for machine, want := range map[string]string{
		"a100-40": "a100-80", "h200": "h100 h200", "b300": "b200", "h800": "a100-80 h100 h200 b200",
		"l40s": "rtx4090 over PCIe", "rtx5090": "rtx-pro-6000-server over PCIe",
		"t4": "rtx4090 over PCIe rtx-pro-6000-server over PCIe",
	} {
		if got := strings.Join(network(t, machine).NCCL.Basis, " "); got != want {
			t.Errorf("%s has the constants of %s, expected %s", machine, got, want)
		}
	}
	if network(t, "h200").AllReduce(Kernels, 8, 1<<20) != network(t, "h100").AllReduce(Kernels, 8, 1<<20) {
		t.Error("h200 and h100 have the same link, but different times")
	}
	near(t, "PCIe 4.0", network(t, "l40s").Link, 31.508e9)
	m, err := library(t).Machine("gh200")
	fatal.If(t, err)
	if _, err := New(m, Most, library(t)); err == nil || !strings.Contains(err.Error(), "peer_bandwidth") {
		t.Errorf("a GPU without links: %v", err)
	}
}

// Two GPUs with NVLink reduce small buffers faster than two over PCIe, by kernels and by NCCL. H800 has
// the slowest NVLink with a switch.
func TestNVLinkBeatsPCIe(t *testing.T) {
	h800, pcie := network(t, "h800"), network(t, "h100-pcie")
	if !pcie.PCIe || h800.PCIe {
		t.Fatalf("h100-pcie over PCIe: %v, h800: %v", pcie.PCIe, h800.PCIe)
	}
	for by := range methods {
		for bytes := 1 << 10; bytes <= 1<<26; bytes *= 2 {
			if fast, slow := h800.AllReduce(by, 2, float64(bytes)), pcie.AllReduce(by, 2, float64(bytes)); fast >= slow {
				t.Errorf("%s of %d B takes %g s on two H800 and %g s on two H100 over PCIe", by, bytes, fast, slow)
			}
		}
	}
}

// A bridge joins two GPUs, and not four. Bridges of two H100 sum large buffers faster than NVLink
// of H800.
func TestBridge(t *testing.T) {
	lib := library(t)
	plain, err := lib.Machine("h100-pcie")
	fatal.If(t, err)
	m, err := plain.WithBridges()
	fatal.If(t, err)
	pair, err := New(m, 2, lib)
	fatal.If(t, err)
	if pair.PCIe || pair.Link != 300e9 {
		t.Errorf("a bridged pair has %g GB/s", pair.Link/1e9)
	}
	if _, err := New(m, 4, lib); err == nil || !strings.Contains(err.Error(), "--bridge joins two GPUs, but 4") {
		t.Errorf("four GPUs with bridges: %v", err)
	}
	for by := range methods {
		if fast, slow := pair.AllReduce(by, 2, 1<<26), network(t, "h800").AllReduce(by, 2, 1<<26); fast >= slow {
			t.Errorf("%s takes %g s between bridged H100, and %g s between H800", by, fast, slow)
		}
	}
	plain, err = lib.Machine("l40s")
	fatal.If(t, err)
	if _, err := plain.WithBridges(); err == nil || !strings.Contains(err.Error(), "l40s states no bridge_bandwidth") {
		t.Errorf("L40S with bridges: %v", err)
	}
}

// Errors of left-out buffers and of exchanges stay below limits. README.md has the table.
func TestJudge(t *testing.T) {
	all, err := Judge(library(t))
	fatal.If(t, err)
	limits := map[string]float64{"device": 0.5, "workers": 0.5, "sizes": 0.2}
	exchanges := 0
	count := 0
	for _, e := range all {
		if e.Split == "sizes" {
			count += e.Count
		}
		if e.Split == "exchange" {
			if exchanges += e.Count; !(e.Worst <= 0.2) {
				t.Errorf("%s, %s: worst %.3f, expected at most 0.2", e.Left, e.Range, e.Worst)
			}
		}
		if limit := limits[e.Split]; limit > 0 && !(e.Median <= limit) {
			t.Errorf("%s %s, %s: median %.3f, expected at most %g", e.Split, e.Left, e.Range, e.Median, limit)
		}
	}
	if points, _ := published(library(t)); count != len(points) || count == 0 {
		t.Errorf("%d points were left out by size, expected each of %d once", count, len(points))
	}
	if exchanges != 12 {
		t.Errorf("%d exchanges were checked, expected 12", exchanges)
	}
	tabletest.InREADME(t, ErrorTable(all).Markdown(), *update, "go test ./replay/collective -update")
	var b bytes.Buffer
	if err := ErrorShares(all).CSV(&b); err != nil || strings.Count(b.String(), "\n") != len(all)+1 {
		t.Errorf("%d errors, %v, CSV:\n%s", len(all), err, b.String())
	}
}

// Errors of files name the line and the expected text.
func TestReadCSV(t *testing.T) {
	const header = "device,workers,bytes,sizes,time_us,method\n"
	rows, err := ReadCSV(strings.NewReader("# comment\n"+header+"h100,8,1024,3,7.5,kernels\n"), "f")
	if err != nil || len(rows) != 1 || rows[0] != (Measurement{"h100", 8, 1024, 7.5, Kernels, 3}) {
		t.Errorf("%+v, %v", rows, err)
	}
	for text, want := range map[string]string{
		"":                                   "f is empty",
		"a,b\n":                              "f:1: columns a,b, expected",
		header:                               "has a header and no measurements",
		header + "h100,8,1024,3\n":           "wrong number of fields",
		header + ",8,1024,3,7,nccl\n":        "f:2: device is empty",
		header + "h100,1,1024,3,7,nccl\n":    "f:2: workers \"1\", expected a whole number of 2 to",
		header + "h100,8,0,3,7,nccl\n":       "f:2: bytes \"0\"",
		header + "h100,8,1024,x,7,nccl\n":    "f:2: sizes \"x\"",
		header + "h100,8,1024,3,NaN,nccl\n":  "f:2: time_us \"NaN\"",
		header + "h100,8,1024,3,-1,nccl\n":   "f:2: time_us \"-1\"",
		header + "h100,8,1024,3,1e99,nccl\n": "f:2: time_us",
		header + "h100,8,1024,3,7,ring\n":    "f:2: method \"ring\", expected nccl or kernels",
	} {
		if _, err := ReadCSV(strings.NewReader(text), "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %s", text, err, want)
		}
	}
	rows = []Measurement{{Device: "gh200", Line: 4}}
	const want = "f:4: GPU gh200 states no peer_bandwidth"
	if _, err := pointsOf(rows, "f", library(t)); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}
