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

// assumedOnce is assumed, from the options where they keep it.
func (r *runner) assumedOnce() string {
	kept := r.options.assumed
	note, known := kept[r.used]
	if !known {
		note = r.assumed()
	}
	if kept != nil {
		kept[r.used] = note
	}
	return note
}

// assumed names the numbers of the machine's files that no source has and that the placed
// steps used; empty where there are none. What the roofline assumes are its own notes.
func (r *runner) assumed() string {
	o, m := &r.options, r.options.Machine
	parts := []string{assumedOf(m.GPU, m.GPU.Name, func(field string) bool {
		if field == "reserved" {
			return o.Reserve == 0
		}
		return o.Model.BytesPerParameter.Value <= 1 || !strings.Contains(field, "fp8")
	})}
	if r.used[H2D] || r.used[D2H] {
		parts = append(parts, r.assumedOfLink())
	}
	binds := float64(m.Host.StreamBandwidth.Value) < float64(m.GPUs)*float64(m.Link.Bandwidth.Value)
	parts = append(parts, assumedOf(m.Host, m.Host.Name, func(field string) bool {
		switch field {
		case "latency":
			return r.used[CPU]
		case "stream_bandwidth":
			return binds && (r.used[H2D] || r.used[D2H])
		}
		return field == "memory" && r.pricer.Moves != MovesNothing
	}))
	if r.used[SSD] {
		parts = append(parts, assumedOf(m.Drive, m.Drive.Name, func(field string) bool { return field != "write_bandwidth" }))
	}
	if o.Ahead.Direct && m.GPUDirect.Status == hardware.Assumed {
		parts = append(parts, listedOf(m.Name, []string{"gpudirect " + m.GPUDirect.Written}))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("assumed, as no source has it (kvreplay hardware show %s says why): %s", m.Name, strings.Join(parts, ", "))
}

// assumedOf names what a part of the machine assumes, of the fields that are used.
func assumedOf(it hardware.Item, name string, uses func(field string) bool) string {
	var facts []string
	for _, l := range hardware.Lines(it) {
		if l.Status == hardware.Assumed && uses(l.Field) {
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

// assumedOfLink names what is assumed of the paths that can be taken. Where a regime begins
// and what costs nothing goes without saying.
func (r *runner) assumedOfLink() string {
	link := r.options.Machine.Link
	lines := hardware.Lines(link)
	var facts []string
	for _, l := range lines {
		if l.Status == hardware.Assumed && strings.HasPrefix(l.Field, "pcie.") {
			facts = append(facts, l.Field+" "+l.Text)
		}
	}
	if r.used[H2D] {
		only := r.options.Path
		if only == fastest {
			only = ""
		}
		facts = append(facts, assumedOfPaths(lines, "host_to_device", only)...)
	}
	if r.used[D2H] {
		facts = append(facts, assumedOfPaths(lines, "device_to_host", "")...)
	}
	return listedOf(link.Name, facts)
}

// assumedOfPaths names a direction's paths, or the one, with what is assumed of each.
func assumedOfPaths(lines []hardware.Line, direction, only string) (facts []string) {
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
			case l.Status != hardware.Assumed:
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
