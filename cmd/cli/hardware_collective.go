package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/replay/collective"
)

// pricedCollective is one buffer as `hardware collective --format json` prints it.
type pricedCollective struct {
	GPU      string  `json:"gpu"`
	GPUs     int     `json:"gpus"`
	Bytes    int64   `json:"bytes"`
	NCCL     float64 `json:"all_reduce_seconds"`
	Kernels  float64 `json:"all_reduce_kernels_seconds"` // of serving engines
	AllToAll float64 `json:"all_to_all_seconds"`         // derived
	Send     float64 `json:"send_seconds"`               // derived
}

func (f *hardwareFlags) collective() command {
	var machine string
	var gpus int
	var bridge bool
	var texts []string
	return command{
		use:   "collective",
		short: "Price communication between the GPUs of a host",
		long: `Price all-reduce, all-to-all and a send between the GPUs of one host, for buffers of each GPU.
All-reduces of NCCL and of the kernels of serving engines are fitted to measurements on the GPU.
All-to-all and send are derived. kvreplay time --engine chooses between the two all-reduces.
replay/collective/README.md describes the model and its errors.`,
		example: `  kvreplay hardware collective --hardware h100 --gpus 8
  kvreplay hardware collective --hardware a100-80 --gpus 4 --bytes 64KiB,1MiB --format json
  kvreplay hardware collective --hardware h100-pcie --gpus 2 --bridge`,
		flags: func(fl *flagSet) {
			fl.StringVar(&machine, "hardware", "h100", "price between the GPUs of this `MACHINE` of kvreplay hardware list")
			fl.BoolVar(&bridge, "bridge", false, "join pairs of GPUs by NVLink bridges, which are optional hardware")
			fl.IntVar(&gpus, "gpus", collective.Most, "number of GPUs of the host")
			fl.StringSliceVar(&texts, "bytes", []string{"64KiB", "1MiB", "16MiB", "64MiB"},
				"price buffers of these `SIZES`, as in 1MiB")
			fl.format(&f.format, "", "table", "json")
		},
		run: func(c *call) error {
			if gpus < 2 || gpus > collective.Most {
				return usagef("--gpus %d: expected 2 to %d, the GPUs of one host", gpus, collective.Most)
			}
			lib, m, err := f.machine(machine)
			if err != nil {
				return err
			}
			if bridge {
				if m, err = m.WithBridges(); err != nil {
					return errUsage{err}
				}
			}
			n, err := collective.New(m, gpus, lib)
			if err != nil {
				return errUsage{err}
			}
			all, err := pricedCollectives(n, gpus, texts)
			if err != nil {
				return err
			}
			return c.print(f.format, all, func(w io.Writer) error { return printCollectives(w, n, all) })
		},
		next: always("hardware", "check", "--collectives"),
	}
}

func pricedCollectives(n *collective.Network, gpus int, texts []string) (all []pricedCollective, err error) {
	for _, t := range texts {
		size, err := parseSize(t)
		if err != nil || size < 1 || size > mostBytes {
			return nil, usagef("--bytes %q: expected 1 B to 1 GiB, as in 1MiB", t)
		}
		bytes := float64(size)
		all = append(all, pricedCollective{n.GPU, gpus, size,
			n.AllReduce(collective.NCCL, gpus, bytes), n.AllReduce(collective.Kernels, gpus, bytes),
			n.AllToAll(gpus, bytes), n.Send(bytes)})
	}
	return all, nil
}

func printCollectives(w io.Writer, n *collective.Network, all []pricedCollective) error {
	us := func(s float64) string { return fmt.Sprintf("%.4g", s*1e6) }
	t := table.New("GPUs", "bytes of each", "NCCL all-reduce us", "all-reduce us of engines' kernels", "all-to-all us (derived)", "send us (derived)").RightFrom(0)
	for _, p := range all {
		t.Add(fmt.Sprintf("%d × %s", p.GPUs, p.GPU), p.Bytes, us(p.NCCL), us(p.Kernels), us(p.AllToAll), us(p.Send))
	}
	fmt.Fprint(w, t.Text())
	print := func(name string, f *collective.Fit) error {
		_, err := fmt.Fprintf(w, "%s, constants of %s: call %s us, hop %s us, %.0f %% of the link's %.4g GB/s\n", name,
			strings.Join(f.Basis, " and "), us(f.Call), us(n.Hop(f)), 100*f.Share, n.Link/1e9)
		return err
	}
	if err := print("NCCL", &n.NCCL); err != nil || n.PCIe {
		return err
	}
	return print("kernels", &n.Kernels)
}
