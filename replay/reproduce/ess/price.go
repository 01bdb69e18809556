package ess

import (
	"strings"

	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// expertGPUs is Table 1's EP-Size.
const expertGPUs = 32

// options are those of every price, as kvreplay time has them by default.
func (s *study) options(context int) pipeline.Options {
	return pipeline.Options{Machine: s.machine, Model: s.model, Selection: s.selection, Batch: 1, Context: int64(context), Experts: expertGPUs, Threads: 16, Reserve: 0.1, Depth: 64}
}

// setting is what a step is priced for.
type setting struct {
	profile  *pipeline.Profile
	schedule string
	batch    int
	context  int
	mtp      int
	accept   float64
	times    string // a timetable as CSV
}

// price runs a schedule as kvreplay time does.
func (s *study) price(x *setting) (*pipeline.Result, error) {
	schedule, err := pipeline.ParseSchedule(x.schedule)
	if err != nil {
		return nil, err
	}
	o := s.options(x.context)
	o.Schedule, o.Batch, o.Positions, o.Accept = schedule, x.batch, x.mtp, x.accept
	if o.Scaling, err = pipeline.NewScaling(x.profile, s.model, "", 0); err != nil {
		return nil, err
	}
	o.Table = func(rest pipeline.Computer) (pipeline.Computer, error) {
		return pipeline.ReadTimetable(strings.NewReader(x.times), "times", rest, false)
	}
	return pipeline.Price(s.ctx, x.profile, o)
}
