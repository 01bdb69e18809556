package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// use takes note of the resources that the placed step occupies.
func (r *runner) use() {
	for i := range r.timeline.Events {
		if e := &r.timeline.Events[i]; e.seconds > 0 {
			r.used[e.Kind.Resource()] = true
		}
	}
}

// basis names the numbers of the machine's files that were not measured and that the placed
// steps used. Each text is empty if there are none.
type basis struct{ assumed, fitted string }

// basisOnce is the basis of the resources used, from the options if they keep it.
func (r *runner) basisOnce() basis {
	kept := r.options.bases
	b, known := kept[r.used]
	if !known {
		b = basis{r.stated(hardware.Assumed), r.stated(hardware.Fitted)}
	}
	if kept != nil {
		kept[r.used] = b
	}
	return b
}

// notes are what a result says of its basis.
func (b basis) notes(machine string) (notes []string) {
	if b.assumed != "" {
		notes = append(notes, fmt.Sprintf("assumed, as no source has it (kvreplay hardware show %s says why): %s", machine, b.assumed))
	}
	if b.fitted != "" {
		notes = append(notes, fmt.Sprintf("fitted to measured points (kvreplay hardware show %s names them): %s", machine, b.fitted))
	}
	return notes
}

// stated lists the numbers of the machine's files with a status that the placed steps used.
// The roofline has notes of its own.
func (r *runner) stated(status hardware.Status) string {
	o, m := &r.options, r.options.Machine
	parts := []string{statedOf(status, m.GPU, m.GPU.Name, func(field string) bool {
		if field == "reserved" {
			return o.Reserve == 0
		}
		return o.Model.BytesPerParameter.Value <= 1 || !strings.Contains(field, "fp8")
	})}
	if r.used[H2D] || r.used[D2H] {
		parts = append(parts, r.statedOfLink(status))
	}
	binds := float64(m.Host.StreamBandwidth.Value) < float64(m.GPUs)*float64(m.Link.Bandwidth.Value)
	parts = append(parts, statedOf(status, m.Host, m.Host.Name, func(field string) bool {
		switch field {
		case "latency":
			return r.used[CPU]
		case "stream_bandwidth":
			return binds && (r.used[H2D] || r.used[D2H])
		}
		return field == "memory" && r.pricer.Moves != MovesNothing
	}))
	if r.used[SSD] {
		parts = append(parts, statedOf(status, m.Drive, m.Drive.Name, func(field string) bool { return field != "write_bandwidth" }))
	}
	if o.Ahead.Direct && m.GPUDirect.Status == status {
		parts = append(parts, listedOf(m.Name, []string{"gpudirect " + m.GPUDirect.Written}))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, ", ")
}

// statedOf lists the fields of a part of the machine that have a status and are used.
func statedOf(status hardware.Status, it hardware.Item, name string, uses func(field string) bool) string {
	var facts []string
	for _, l := range hardware.Lines(it) {
		if l.Status == status && uses(l.Field) {
			facts = append(facts, l.Field+" "+l.Text)
		}
	}
	return listedOf(name, facts)
}

func listedOf(name string, facts []string) string {
	if len(facts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s [%s]", name, strings.Join(facts, ", "))
}

// statedOfLink lists the numbers with a status of the paths that can be taken. It leaves out
// the sizes at which regimes begin and the costs that are 0.
func (r *runner) statedOfLink(status hardware.Status) string {
	link := r.options.Machine.Link
	lines := hardware.Lines(link)
	var facts []string
	for _, l := range lines {
		if l.Status == status && strings.HasPrefix(l.Field, "pcie.") {
			facts = append(facts, l.Field+" "+l.Text)
		}
	}
	if r.used[H2D] {
		only := r.options.Path
		if only == fastest {
			only = ""
		}
		facts = append(facts, statedOfPaths(lines, status, "host_to_device", only)...)
	}
	if r.used[D2H] {
		facts = append(facts, statedOfPaths(lines, status, "device_to_host", "")...)
	}
	return listedOf(link.Name, facts)
}

// statedOfPaths lists the paths of a direction, or only one, each with its numbers of a status.
func statedOfPaths(lines []hardware.Line, status hardware.Status, direction, only string) (facts []string) {
	for _, path := range hardware.PathNames {
		if only != "" && path != only {
			continue
		}
		var names []string
		all := true
		for _, l := range lines {
			field, ok := strings.CutPrefix(l.Field, direction+"."+path+".")
			field = field[strings.LastIndex(field, ".")+1:] // of whichever regime
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
