package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/collective"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// basis names the numbers of the machine's files that were not measured and that the placed
// steps used. Each text is empty if there are none.
type basis struct{ assumed, fitted string }

// basis returns the basis of the used resources, from the options if they cache it.
func (r *runner) basis() basis {
	kept := r.bases
	b, known := kept[r.used]
	if !known {
		m := r.Machine
		files := machineLines{gpu: hardware.Lines(m.GPU), link: hardware.Lines(m.Link), host: hardware.Lines(m.Host)}
		if r.used[schedule.SSD] {
			files.drive = hardware.Lines(m.Drive)
		}
		b = basis{r.facts(&files, hardware.Assumed), r.facts(&files, hardware.Fitted)}
	}
	if kept != nil {
		kept[r.used] = b
	}
	return b
}

// machineLines holds the numbers of a machine's files.
type machineLines struct{ gpu, link, host, drive []hardware.Line }

func (b basis) notes(machine string) (notes []string) {
	if b.assumed != "" {
		notes = append(notes, fmt.Sprintf("assumed, because no source states it (details: kvreplay hardware show %s): %s", machine, b.assumed))
	}
	if b.fitted != "" {
		notes = append(notes, fmt.Sprintf("fitted to measured points (details: kvreplay hardware show %s): %s", machine, b.fitted))
	}
	return notes
}

// facts lists the numbers with a status in the machine's files that the placed steps used. The
// roofline has notes of its own.
func (r *runner) facts(files *machineLines, status hardware.Status) string {
	m := r.Machine
	var parts []string
	list := func(name string, facts []string) {
		if len(facts) > 0 {
			parts = append(parts, fmt.Sprintf("%s [%s]", name, strings.Join(facts, ", ")))
		}
	}
	list(m.GPU.Name, factsOf(files.gpu, status, func(field string) bool {
		if field == "reserved" {
			return r.Reserve == 0 && r.Occupied == 0
		}
		return (r.Model.BytesPerParameter.Value <= 1 || !strings.Contains(field, "fp8")) && (r.Model.NVFP4 || !strings.Contains(field, "fp4"))
	}))
	link := r.used[schedule.H2D] || r.used[schedule.D2H]
	if link {
		facts := factsOf(files.link, status, func(field string) bool { return strings.HasPrefix(field, "pcie.") })
		fetch, store := r.Path, fastest
		if r.Path == pageable && m.Link.PCIe != nil {
			fetch, store = transfer.Call.String(), transfer.Call.String()
		}
		if r.used[schedule.H2D] {
			facts = append(facts, pathFacts(files.link, status, "host_to_device", fetch)...)
		}
		if r.used[schedule.D2H] {
			facts = append(facts, pathFacts(files.link, status, "device_to_host", store)...)
		}
		list(m.Link.Name, facts)
	}
	searches := r.Selection.Cost(r.Model).Host.Searched()
	binds := float64(m.Host.StreamBandwidth.Value) < float64(m.GPUs)*float64(m.Link.Bandwidth.Value)
	list(m.Host.Name, factsOf(files.host, status, func(field string) bool {
		switch field {
		case "latency":
			return r.used[schedule.CPU] && r.host == nil || searches
		case "stream_bandwidth":
			return binds && link || r.host != nil || searches
		case "fp32":
			return r.host != nil
		case "thread_bandwidth":
			return r.used[schedule.CPU] && r.lookup.Scans()
		}
		return field == "memory" && r.traits.Moves != schedule.MovesNothing
	}))
	if r.used[schedule.SSD] {
		list(m.Drive.Name, factsOf(files.drive, status, func(field string) bool { return field != "write_bandwidth" }))
	}
	if wire := &m.NetworkBandwidth; r.used[schedule.Peers] && r.Experts > collective.Most && wire.Status == status {
		list(cmp.Or(m.Shown, m.Name), []string{"network_bandwidth " + wire.Written})
	}
	if r.Ahead.Direct && m.GPUDirect.Status == status {
		list(cmp.Or(m.Shown, m.Name), []string{"gpudirect " + m.GPUDirect.Written})
	}
	return strings.Join(parts, ", ")
}

// factsOf lists the used fields of a file with a status.
func factsOf(lines []hardware.Line, status hardware.Status, uses func(field string) bool) (facts []string) {
	for _, l := range lines {
		if l.Status == status && uses(l.Field) {
			facts = append(facts, l.Field+" "+l.Text)
		}
	}
	return facts
}

// pathFacts lists the possible paths of a direction, each with its numbers that have a status. It
// leaves out the sizes at which regimes begin, and costs of 0.
func pathFacts(lines []hardware.Line, status hardware.Status, direction, only string) (facts []string) {
	for _, path := range hardware.PathNames {
		if only != "" && only != fastest && only != pageable && path != only {
			continue
		}
		var names []string
		all := true
		for _, l := range lines {
			field, ok := strings.CutPrefix(l.Field, direction+"."+path+".")
			field = field[strings.LastIndex(field, ".")+1:] // in any regime
			switch {
			case !ok || field == "from" || l.Value == 0:
			case l.Status != status:
				all = false
			case !slices.Contains(names, field):
				names = append(names, field)
			}
		}
		switch {
		case len(names) == 0:
		case all:
			facts = append(facts, fmt.Sprintf("%s.%s (all)", direction, path))
		default:
			facts = append(facts, fmt.Sprintf("%s.%s (%s)", direction, path, strings.Join(names, ", ")))
		}
	}
	return facts
}
