package derive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// UnknownError is a selected request, layer or head that the source does not have.
type UnknownError struct {
	Kind  string   // request, layer or head
	Name  string   // as selected
	Known []string // what the source has, in its order
}

// Error lists what the source has, the first few of many.
func (e *UnknownError) Error() string {
	const most = 20
	known := e.Known
	more := ""
	if len(known) > most {
		known, more = known[:most], fmt.Sprintf(" and %d more", len(e.Known)-most)
	}
	return fmt.Sprintf("no %s %s; the trace has %s%s", e.Kind, e.Name, strings.Join(known, ", "), more)
}

// headName is a head as messages show it.
func headName(h int32) string {
	if h == trace.NoHead {
		return "none (shared by the layer)"
	}
	return fmt.Sprint(h)
}

// selectStreams fills p.streams. Every selected name must exist, and their
// combination must select something.
func (p *plan) selectStreams(f *trace.File) error {
	streams := f.Streams()
	ids := func(of func(*trace.StreamInfo) string) (all []string) {
		seen := map[string]bool{}
		for i := range streams {
			if id := of(&streams[i]); !seen[id] {
				seen[id] = true
				all = append(all, id)
			}
		}
		return all
	}
	request := func(s *trace.StreamInfo) string { return s.Request }
	layer := func(s *trace.StreamInfo) string { return fmt.Sprint(s.Layer) }
	head := func(s *trace.StreamInfo) string { return headName(s.Head) }
	for _, want := range p.o.Requests {
		if err := known("request", want, ids(request)); err != nil {
			return err
		}
	}
	for _, want := range p.o.Layers {
		if err := known("layer", fmt.Sprint(want), ids(layer)); err != nil {
			return err
		}
	}
	for _, want := range p.o.Heads {
		if err := known("head", headName(want), ids(head)); err != nil {
			return err
		}
	}
	for i := range streams {
		if p.selected(&streams[i]) {
			p.streams = append(p.streams, i)
		}
	}
	if len(p.streams) == 0 {
		return fmt.Errorf("no stream is in all selections together: %v", p.o)
	}
	return nil
}

func (p *plan) selected(s *trace.StreamInfo) bool {
	return (p.o.Requests == nil || slices.Contains(p.o.Requests, s.Request)) &&
		(p.o.Layers == nil || slices.Contains(p.o.Layers, s.Layer)) &&
		(p.o.Heads == nil || slices.Contains(p.o.Heads, s.Head))
}

func known(kind, name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	return &UnknownError{kind, name, names}
}
