package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
	"github.com/kvreplay/kvreplay/replay/transfer/extents"
	"github.com/kvreplay/kvreplay/trace"
)

// copyThreads is the number of threads of the host that copy within its memory.
const copyThreads = 8

type priceFlags struct {
	machine      string
	parts        machineParts
	model        string // whose entries move, instead of --entry-bytes
	layout       transfer.Layout
	blocks, runs int64
	demand       transfer.Demand
	ahead        float64
	direct       bool
}

func (h *hardwareFlags) price() command {
	var f priceFlags
	return command{
		use:   "price",
		short: "Price one fetch and write-back on a machine",
		long: `Price the move of blocks between host and GPU: by every path of a machine's link, in one
direction and in both, from its drives, and within its memory. The table has seconds by cause, bytes
on the wire and the SMs that a path takes. With --from-ssd some blocks are only on the drives.
Four levels of hiding their reads are then priced: layer-wise, sparse, hierarchical (reads ahead
during --ahead-us) and balanced (--pinned blocks stay in host memory).`,
		example: `  kvreplay hardware price --hardware h100 --entry-bytes 656 --blocks 2048
  kvreplay hardware price --hardware l20 --entry-bytes 4KiB --blocks 300 --runs 120 --merge
  kvreplay hardware price --hardware l20 --entry-bytes 512 --blocks 300 --from-ssd 40 --ahead-us 200`,
		flags: func(fl *flagSet) {
			fl.StringVar(&f.machine, "hardware", "h100", "price on this `MACHINE` of kvreplay hardware list")
			sizeVar(fl, &f.layout.EntryBytes, "entry-bytes", 0, mostBytes, "size of one token in a layer or KV head (required, unless --model is given)")
			fl.StringVar(&f.model, "model", "", "move tokens of a layer of this model: a `SHAPE` of kvreplay hardware list, or a config.json")
			fl.Int64Var(&f.blocks, "blocks", 0, "number of blocks to move (required)")
			fl.Int64Var(&f.layout.BlockTokens, "block-tokens", 1, "tokens per block")
			fl.Int64Var(&f.runs, "runs", 0, "number of runs of adjacent blocks among them (default: each block is one)")
			fl.BoolVar(&f.layout.Merge, "merge", false, "move a run of blocks as one piece")
			fl.Int64Var(&f.demand.SSD, "from-ssd", 0, "number of blocks that are only on the drives (default 0)")
			fl.format(&h.format, "", "table", "json")
			fl.more()
			fl.Int64Var(&f.demand.Pinned, "pinned", 0, "number of --from-ssd blocks that stay in pinned memory (default 0)")
			fl.Int64Var(&f.demand.Layer, "layer-blocks", 0, "number of blocks of the layer, for the layer-wise level (default: --blocks)")
			fl.Float64Var(&f.ahead, "ahead-us", 0, "microseconds of computation that hide reads ahead (default 0)")
			fl.BoolVar(&f.direct, "gpudirect", false, "let the drives write into the GPU (GPUDirect Storage)")
			f.parts.define(fl)
			fl.positive("runs", "layer-blocks", "block-tokens")
			fl.goWith("from-ssd", "layer-blocks", "ahead-us", "pinned", "gpudirect")
			fl.goWith("runs", "merge") // without, each block is a run
		},
		run: func(c *call) error {
			lib, err := h.load()
			if err != nil {
				return err
			}
			if err := f.measure(lib); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			names, err := f.parts.machines(c, lib, f.machine)
			if err != nil {
				return err
			}
			m, err := lib.Machine(names[0])
			if err != nil {
				return errUsage{err}
			}
			if f.direct && !m.GPUDirect.Known() {
				return fmt.Errorf("machine %s has no gpudirect rate: add one to its file, or remove --gpudirect", m.Name)
			}
			p := f.priced(m)
			return c.print(h.format, p, p.print)
		},
		next: always("hardware", "points"),
	}
}

// measure sets the size of an entry to that of the model, if one is given.
func (f *priceFlags) measure(lib *hardware.Library) error {
	if f.model == "" {
		return nil
	}
	if f.layout.EntryBytes != 0 {
		return usagef("--model and --entry-bytes both state the size of a token: remove one of them")
	}
	m, err := lib.ModelOrConfig(f.model)
	if err != nil {
		return errUsage{err}
	}
	f.layout.EntryBytes = int64(math.Ceil(float64(m.Entry.Value)))
	return nil
}

func (f *priceFlags) check() error {
	switch {
	case f.layout.EntryBytes < 1:
		return usagef("--entry-bytes %d: expected the bytes of one token in a layer, as in 656 for DeepSeek-V3.2", f.layout.EntryBytes)
	case f.blocks < 1:
		return usagef("--blocks %d: expected at least 1", f.blocks)
	case f.runs < 0 || f.runs > f.blocks:
		return usagef("--runs %d: expected 1 to %d, the number of --blocks", f.runs, f.blocks)
	case f.demand.SSD < 0 || f.demand.SSD > f.blocks:
		return usagef("--from-ssd %d: expected 0 to %d, the number of --blocks", f.demand.SSD, f.blocks)
	case f.demand.Pinned < 0 || f.demand.Pinned > f.demand.SSD:
		return usagef("--pinned %d: expected 0 to %d, the number of --from-ssd blocks", f.demand.Pinned, f.demand.SSD)
	case f.demand.Layer != 0 && f.demand.Layer < f.blocks:
		return usagef("--layer-blocks %d: expected at least %d, the number of --blocks", f.demand.Layer, f.blocks)
	case !(f.ahead >= 0 && f.ahead < 1e12):
		return usagef("--ahead-us %g: expected at least 0", f.ahead)
	case f.layout.BlockTokens > 1<<20:
		return usagef("--block-tokens %d: expected at most %d", f.layout.BlockTokens, 1<<20)
	case f.blocks > 1<<30 || f.demand.Layer > 1<<30 ||
		float64(f.layout.BlockBytes())*float64(max(f.blocks, f.demand.Layer)) > 1<<60:
		return usagef("the blocks exceed 1 EiB in total: check --entry-bytes, --block-tokens and --blocks")
	}
	f.runs, f.demand.Layer = cmp.Or(f.runs, f.blocks), cmp.Or(f.demand.Layer, f.blocks)
	f.demand.DRAM, f.demand.Ahead = f.blocks-f.demand.SSD, f.ahead*1e-6
	return nil
}

// pricedPath is one path as `hardware price --format json` prints it.
type pricedPath struct {
	Direction   string  `json:"direction"`
	Path        string  `json:"path"`
	Descriptors int64   `json:"descriptors"`
	Bytes       int64   `json:"bytes"`
	WireForward float64 `json:"wire_forward_bytes"`
	WireBack    float64 `json:"wire_back_bytes"`
	Launch      float64 `json:"launch_seconds"`
	Submit      float64 `json:"submit_seconds"`
	Descriptor  float64 `json:"descriptor_seconds"`
	Link        float64 `json:"link_seconds"`
	Seconds     float64 `json:"seconds"`
	SMs         float64 `json:"sms"`
}

// pricedLevel is one level of hiding the SSD.
type pricedLevel struct {
	Level   string  `json:"level"`
	Seconds float64 `json:"exposed_seconds"`
	Link    int64   `json:"link_bytes"`
	SSD     int64   `json:"ssd_bytes"`
	Reads   int64   `json:"ssd_reads"`
}

type priced struct {
	Machine string        `json:"machine"`
	Note    string        `json:"note,omitempty"` // on assumed parts
	Paths   []pricedPath  `json:"paths"`
	Levels  []pricedLevel `json:"levels,omitempty"`
}

func (f *priceFlags) priced(m *hardware.Machine) priced {
	p := priced{Machine: m.Name, Note: m.Note}
	link := transfer.NewLink(m.Link)
	request := f.layout.Request(f.blocks, f.runs)
	for d := range transfer.DeviceToHost + 1 {
		for mechanism := range transfer.Kernel + 1 {
			if c, err := link.Path(d, mechanism); err == nil {
				p.Paths = append(p.Paths, pricedOf(d.String(), mechanism.String(), c.Cost(request)))
			}
		}
	}
	p.Paths = append(p.Paths, bothWays(link, request)...)
	ssd := transfer.NewSSD(m.Drive, m.Drives, int64(m.ReadsInFlight))
	reads := request
	reads.Descriptors = f.runs
	p.Paths = append(p.Paths, pricedOf("ssd to host", fmt.Sprintf("%d × %s", m.Drives, m.Drive.Name), ssd.Cost(reads)))
	p.Paths = append(p.Paths, pricedOf("dram to dram", fmt.Sprintf("%d threads", copyThreads), transfer.DRAM(m.Host, copyThreads).Cost(request)))
	if cxl, ok := transfer.CXL(m.Host, copyThreads); ok {
		p.Paths = append(p.Paths, pricedOf("cxl to dram", fmt.Sprintf("%d threads", copyThreads), cxl.Cost(request)))
	}
	if f.demand.SSD == 0 {
		return p
	}
	tiers := transfer.Tiers{Link: link.Fastest(transfer.HostToDevice), SSD: ssd, Layout: f.layout, Direct: f.direct, DirectRate: float64(m.GPUDirect.Value)}
	for level := transfer.LayerWise; level <= transfer.Balanced; level++ {
		c := tiers.Fetch(level, f.demand)
		p.Levels = append(p.Levels, pricedLevel{level.String(), c.Seconds, c.LinkBytes, c.SSDBytes, c.Reads})
	}
	return p
}

// bothWays are the request each way at once, on the paths that both directions have.
func bothWays(link *transfer.Link, r transfer.Request) (rows []pricedPath) {
	for m := range transfer.Kernel + 1 {
		fetch, err1 := link.Path(transfer.HostToDevice, m)
		store, err2 := link.Path(transfer.DeviceToHost, m)
		if err1 == nil && err2 == nil {
			in, out := fetch.Cost(r), store.Cost(r)
			rows = append(rows, pricedPath{Direction: "both at once", Path: m.String(), Descriptors: 2 * r.Descriptors, Bytes: 2 * r.Bytes,
				WireForward: in.WireForward + out.WireForward, WireBack: in.WireBack + out.WireBack, Seconds: link.Both(m, in, out), SMs: in.SMs + out.SMs})
		}
	}
	return rows
}

func pricedOf(direction, path string, c transfer.Cost) pricedPath {
	return pricedPath{direction, path, c.Descriptors, c.Bytes, c.WireForward, c.WireBack, c.By.Launch, c.By.Submit, c.By.Descriptor, c.By.Link, c.Seconds, c.SMs}
}

// print writes the tables of a price. stdout keeps the first error.
func (p *priced) print(w io.Writer) error {
	us := func(s float64) string { return fmt.Sprintf("%.4g", s*1e6) }
	cause := func(r *pricedPath, s float64) string {
		if r.Launch+r.Submit+r.Descriptor+r.Link == 0 {
			return "" // both ways at once have no causes of their own
		}
		return us(s)
	}
	t := table.New(p.Machine, "path", "pieces", "bytes", "on the wire", "back", "launch us", "submit us", "pieces us", "bytes us", "all us", "GB/s", "SMs").RightFrom(2)
	for i := range p.Paths {
		r := &p.Paths[i]
		t.Add(r.Direction, r.Path, r.Descriptors, r.Bytes, fmt.Sprintf("%.0f", r.WireForward), fmt.Sprintf("%.0f", r.WireBack),
			cause(r, r.Launch), cause(r, r.Submit), cause(r, r.Descriptor), cause(r, r.Link), us(r.Seconds), fmt.Sprintf("%.3g", float64(r.Bytes)/r.Seconds/1e9), r.SMs)
	}
	fmt.Fprint(w, t.Text())
	if p.Levels != nil {
		t = table.New("level", "exposed us", "link bytes", "SSD bytes", "SSD reads").RightFrom(1)
		for _, l := range p.Levels {
			t.Add(l.Level, us(l.Seconds), l.Link, l.SSD, l.Reads)
		}
		fmt.Fprintf(w, "\n%s", t.Text())
	}
	if p.Note != "" {
		fmt.Fprintf(w, "\n%s\n", strings.Join(table.Wrap("note: "+p.Note, 100), "\n"))
	}
	return nil
}

func (h *hardwareFlags) extents() command {
	var o extents.Options
	var machine string
	var entry int64
	return command{
		use:   "extents TRACE...",
		short: "Count the SSD reads of a trace's demand by layout",
		long: `Count the reads of an SSD for the demand of each step if no cache keeps anything.
The blocks lie in token order, by layer, by stream, or by stream and packed: blocks that the windows
(and --history decode steps) demand together are neighbours. Adjacent extents are one read.
The times are those of a machine's drives for the mean step of a stream.`,
		example: "  kvreplay hardware extents t.parquet --extent 1,8 --hardware l20",
		args:    atLeast(1, "trace"),
		flags: func(fl *flagSet) {
			fl.Int64SliceVar(&o.Extents, "extent", []int64{1, 4, 16}, "count extents of these sizes, in `BLOCKS`")
			fl.IntVar(&o.TopK, "topk", 0, "`K`, the blocks that a step reads (default: the trace's)")
			fl.IntVar(&o.History, "history", 0, "pack also by the first `N` decode steps, which are not counted (default 0)")
			fl.StringVar(&machine, "hardware", "l20", "use the drives of this `MACHINE`")
			sizeVar(fl, &entry, "entry-bytes", 4096, mostBytes, "size of a block on the drive")
			fl.positive("topk", "entry-bytes")
			fl.format(&h.format, "", "table", "json")
		},
		run: func(c *call) error {
			if err := o.Validate(); err != nil {
				return errUsage{err}
			}
			for _, name := range []string{"hardware", "entry-bytes"} {
				if c.changed(name) && h.format == "json" {
					return usagef("--%s has no effect with --format json, which has no times: remove it", name)
				}
			}
			_, m, err := h.machine(machine)
			if err != nil {
				return err
			}
			for i, path := range c.args {
				if i > 0 && h.format != "json" {
					fmt.Fprintln(c.stdout)
				}
				if err := h.survey(c, path, o, transfer.NewSSD(m.Drive, m.Drives, int64(m.ReadsInFlight)), entry); err != nil {
					return err
				}
			}
			return nil
		},
		next: withArgs("replay"),
	}
}

// survey counts the reads of a trace and prints them.
func (f *hardwareFlags) survey(c *call, path string, o extents.Options, ssd *transfer.SSD, entry int64) error {
	t, err := trace.Open(path)
	if err != nil {
		return err
	}
	defer t.Close()
	rows, err := extents.File(c.Context(), t, o)
	if err != nil {
		return err
	}
	if f.format != "json" {
		noteBlocks(c.stderr, t, entry)
	}
	return c.print(f.format, rows, tableOf(extentsTable(rows, ssd, entry)))
}

// noteBlocks prints a note if --entry-bytes is not the size of the trace's blocks. It is the
// size of a block here, of a token in other commands.
func noteBlocks(w io.Writer, f *trace.File, bytes int64) {
	if m := f.Meta(); m.EntryBytes > 0 && bytes != int64(m.EntryBytes)*int64(m.BlockTokens) {
		fmt.Fprintf(w, "kvreplay: %s: times assume blocks of %d bytes (--entry-bytes), but the trace's have %d bytes: %s of %d\n", f.Path(), bytes, m.EntryBytes*m.BlockTokens, count(m.BlockTokens, "token"), m.EntryBytes)
	}
}

func extentsTable(rows []extents.Row, ssd *transfer.SSD, entry int64) *table.Table {
	t := table.New("order", "extent", "demand a step", "reads a step", "blocks read", "× demand", "us a step").RightFrom(1)
	for _, r := range rows {
		if r.Steps == 0 {
			continue
		}
		steps := float64(r.Steps)
		bytes := r.Blocks/r.Steps*entry + r.Blocks%r.Steps*entry/r.Steps // of a step. The product of all may overflow
		request := transfer.Request{Descriptors: (r.Reads + r.Steps/2) / r.Steps, Bytes: bytes, Launches: 1}
		t.Add(r.Order, r.Extent, fmt.Sprintf("%.1f", float64(r.Demand)/steps), fmt.Sprintf("%.1f", float64(r.Reads)/steps),
			fmt.Sprintf("%.1f", float64(r.Blocks)/steps), fmt.Sprintf("%.2f", float64(r.Blocks)/float64(max(1, r.Demand))), fmt.Sprintf("%.4g", ssd.Time(request)*1e6))
	}
	return t
}
