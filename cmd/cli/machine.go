package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// gpuFlag describes a machine by its GPU, instead of --hardware.
const gpuFlag = "gpu"

// machineParts are the flags that describe a machine without a file.
type machineParts struct{ hardware.Parts }

func (p *machineParts) define(fl *flagSet) {
	fl.StringVar(&p.GPU, gpuFlag, "", "price on a machine with this `GPU` of kvreplay hardware list, instead of --hardware")
	fl.IntVar(&p.GPUs, "gpus", 0, "number of GPUs of the --gpu machine (default: as the file of its GPU)")
	sizeVar(fl, &p.HostMemory, "host-memory", 0, mostMemory, "host memory of the --gpu machine, as in 2TB (10¹² B) or 2TiB (default: as its file)")
	fl.StringVar(&p.Link, "link", "", "link of each GPU of the --gpu machine, as in pcie5 (default: as its file)")
	fl.BoolVar(&p.Bridge, "bridge", false, "join pairs of GPUs of the --gpu machine by NVLink bridges, which are optional hardware")
	fl.positive("gpus")
	fl.goWith(gpuFlag, "gpus", "host-memory", "link", "bridge")
}

// machines returns the name of the machine of --gpu, or without this flag the names of --hardware.
func (p *machineParts) machines(c *call, lib *hardware.Library, names ...string) ([]string, error) {
	switch {
	case p.GPU == "":
		return names, nil
	case c.changed("hardware"):
		return nil, usagef("--%s describes a machine, and --hardware names one: remove one of them", gpuFlag)
	case p.GPUs > mostGPUs:
		return nil, usagef("--gpus %d: expected 1 to %d", p.GPUs, mostGPUs)
	case c.changed("host-memory") && p.HostMemory < 1e9:
		return nil, usagef("--host-memory %d: expected at least 1GB, with a unit, as in 2TB", p.HostMemory)
	}
	m, err := lib.Compose(p.Parts)
	if err != nil {
		return nil, errUsage{err}
	}
	return []string{m.Name}, nil
}

// mostGPUs is the largest number of GPUs of a machine.
const mostGPUs = 1 << 10

// tokensVar adds a flag of a number of tokens: 32768, 64K (× 1024), 1M.
func tokensVar[T int | int64](fl *flagSet, to *T, name, usage string) {
	fl.Var(value{"tokens", func(text string) error {
		number, unit := strings.TrimRight(text, "kKmM"), int64(1)
		switch strings.ToUpper(text[len(number):]) {
		case "":
		case "K":
			unit = 1 << 10
		case "M":
			unit = 1 << 20
		default:
			number = ""
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > math.MaxInt64/unit {
			return errors.New("expected a number of tokens, as in 32768 or 64K (× 1024)")
		}
		*to = T(n * unit)
		return nil
	}, func() string { return strconv.FormatInt(int64(*to), 10) }, nil}, name, usage)
}
