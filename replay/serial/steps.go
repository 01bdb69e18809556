package serial

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// steps returns the options of the replay by steps. serial has no flags for settings that the trace
// does not state. So steps assumes them, and the notes name the assumed pins.
func (o *Options) steps(f *trace.File) (s replay.Options, notes []string, err error) {
	s = replay.Options{Policies: o.Policies, Capacities: o.Capacities, Warmup: o.Warmup,
		TopK: o.TopK, Layers: o.Layers, Requests: o.Requests, Workers: o.Workers, Per: replay.PerStream}
	meta := f.Meta()
	if meta.EntryBytes == 0 {
		for _, c := range o.Capacities {
			if c.Form() == setting.InBytes {
				return s, nil, fmt.Errorf("serial replay of %s: capacity %v is in bytes, but the trace states no entry_bytes. Give entries or a multiple of K", f.Path(), c)
			}
		}
		one := 1 // rows of serial have no bytes
		s.EntryBytes = &one
	}
	if note, _ := replay.UnstatedPins(meta, &s); note != "" {
		notes = append(notes, note)
	}
	sink, local, _ := meta.Pins()
	s.Sink, s.Local = &sink, &local
	return s, notes, nil
}

// run replays by steps. If a trace lacks something, the error speaks of the serial replay that the
// user started.
func run(ctx context.Context, f *trace.File, o replay.Options) (*replay.Result, error) {
	result, err := replay.Run(ctx, f, o)
	if refused, ok := errors.AsType[*replay.PlanError](err); ok {
		err = fmt.Errorf("serial replay of %s: %w", refused.Path, refused.Err)
	}
	return result, err
}
