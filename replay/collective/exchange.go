package collective

import (
	"fmt"
	"math"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/csvrows"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// exchangeStart is the time of an exchange without its bytes. It is derived: the mean of what remains of
// the dispatch and of the combine of 8 GPUs that DeepEP measured (data/exchange.csv).
const exchangeStart = 35e-6

// Exchange returns the seconds in which each of some GPUs sends an equal part of some bytes to each
// of them, except to itself. Experts on several GPUs need two: dispatch and combine.
//
// Hosts have Most GPUs or fewer, all the same number. Within a host the bytes pass the link, between
// hosts the network, both at once:
//
//	start + max((host−1)/gpus·bytes / (share·link), (gpus−host)/gpus·bytes / network)
//
// start is exchangeStart. Over PCIe it is a call and a hop of NCCL. share is that of NCCL's rings. network is a GPU's rate to other hosts in each direction, which
// counts only for several hosts. Tokens are sent directly to each of their experts, as DeepSeek-V3
// does in decoding (Technical Report, arXiv 2412.19437, section 3.4.2). One GPU takes no time.
func (n *Network) Exchange(gpus int, bytes, network float64) float64 {
	if gpus < 2 || bytes <= 0 {
		return 0
	}
	hosts := hostsOf(gpus)
	return n.exchange(bytes/hosts, (hosts-1)/hosts*bytes, float64(gpus)/hosts, network)
}

// Forward is Exchange if tokens go once to each host of their experts, and from there to the GPUs by the
// link. DeepSeek-V3 does so with prompts (section 3.4.1). experts is the number of a token's experts, which
// are chosen evenly. So a token goes to hosts·(1 − (1 − 1/hosts)^experts) of the hosts:
//
//	start + max((host−1)/host·bytes / (share·link), (hosts−1)·(1 − (1 − 1/hosts)^experts)/experts·bytes / network)
func (n *Network) Forward(gpus, experts int, bytes, network float64) float64 {
	if gpus < 2 || bytes <= 0 {
		return 0
	}
	hosts := hostsOf(gpus)
	others := (hosts - 1) * (1 - math.Pow(1-1/hosts, float64(experts))) / float64(experts)
	return n.exchange(bytes, others*bytes, float64(gpus)/hosts, network)
}

// hostsOf returns the number of hosts that have some GPUs.
func hostsOf(gpus int) float64 { return math.Ceil(float64(gpus) / Most) }

// exchange returns the time of an exchange of which some bytes are for a host of some GPUs, and far pass
// the network.
func (n *Network) exchange(near, far, host, network float64) float64 {
	seconds := (host - 1) / host * near / (n.NCCL.Share * n.Link)
	if far > 0 {
		seconds = max(seconds, far/network)
	}
	if n.PCIe { // DeepEP needs NVLink
		return n.NCCL.Call + n.NCCL.hop(n.link()) + seconds
	}
	return exchangeStart + seconds
}

// exchange is a published time of an exchange.
type exchange struct {
	operation               string // dispatch or combine
	gpus                    int
	bytes                   float64
	link, network, measured float64 // bytes/s, bytes/s, s
}

const exchangeFile = "exchange.csv"

// exchanges returns the published exchanges. Those of 8 GPUs determine exchangeStart, and the others only
// check the formula.
func exchanges() ([]exchange, error) {
	f, err := bundled.Open("data/" + exchangeFile)
	if err != nil {
		return nil, err
	}
	header := []string{"operation", "gpus", "bytes", "link_gb_per_s", "network_gb_per_s", "time_us"}
	return csvrows.Read(f, "bundled:"+exchangeFile, header, func(record []string, _ int) (e exchange, err error) {
		e.operation = record[0]
		var x [5]float64
		for i := range x {
			if x[i], err = strconv.ParseFloat(record[i+1], 64); err != nil || !(x[i] > 0) {
				return e, fmt.Errorf("%s %.60q, expected a number above 0", header[i+1], record[i+1])
			}
		}
		e.gpus, e.bytes, e.link, e.network, e.measured = int(x[0]), x[1], x[2]*1e9, x[3]*1e9, x[4]*1e-6
		return e, nil
	})
}

// judgeExchanges returns the errors of the formula on the published exchanges. The rate of the link is
// the one that the source reached.
func judgeExchanges() (list []Errors, err error) {
	all, err := exchanges()
	if err != nil {
		return nil, err
	}
	for _, operation := range slice.Distinct(all, func(e *exchange) string { return e.operation }) {
		for _, several := range []bool{false, true} {
			mine, _ := slice.Partition(all, func(e *exchange) bool {
				return e.operation == operation && (e.gpus > Most) == several
			})
			sizes := "8 GPUs"
			if several {
				sizes = "16 to 256 GPUs"
			}
			errors := slice.Map(mine, func(e exchange) float64 {
				n := Network{Link: e.link, NCCL: Fit{Constants: Constants{Share: 1}}}
				return n.Exchange(e.gpus, e.bytes, e.network)/e.measured - 1
			})
			list = append(list, summary("exchange", "DeepEP, "+operation, sizes, errors))
		}
	}
	return list, nil
}
