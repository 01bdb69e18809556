package pipeline

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer/fit"
)

// By hand: a fetch of 3 s hides behind attention of 2 s, and 4 s of computation follow.
func TestStretched(t *testing.T) {
	line := schedule.NewTimeline()
	start := line.Add(schedule.Project, 0, 0, 1)
	fetched := line.Add(schedule.FetchBlocks, 0, 0, 3, start)
	resident := line.Add(schedule.AttendResident, 0, 0, 2, start)
	line.Add(schedule.Post, 0, 0, 4, resident, fetched)
	if end := line.End(); end != 8 {
		t.Fatalf("the step takes %g s, expected 1 + 3 + 4", end)
	}
	step := &schedule.Step{Whole: make([]schedule.Layer, 1)}
	for _, c := range []struct {
		model  Submodel
		factor float64
		want   float64
	}{
		{KernelModel, 1, 8}, {KernelModel, 2, 14}, {KernelModel, 0.5, 5.5},
		{LinkModel, 2, 11}, {LinkModel, 0.5, 7}, // of a fetch of 1.5 s, all hides
		{DriveModel, 2, 8},
	} {
		if got := stretched(line, schedule.NewTimeline(), step, c.model, c.factor); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s × %g: %g s, expected %g", c.model, c.factor, got, c.want)
		}
	}
	if !uses(line, LinkModel) || uses(line, DriveModel) {
		t.Error("the step uses the link and no drive")
	}
}

// Every schedule's timeline is placed again with the same end if nothing is stretched.
func TestStretchedByOne(t *testing.T) {
	p := read(t, realProfile(t))
	for _, name := range exactNames(t) {
		o := options(t, p, name)
		o.Batch = 2
		r, err := newRunner(t.Context(), p, o)
		fatal.If(t, err)
		fatal.If(t, r.place(1))
		if end, again := r.timeline.End(), stretched(r.timeline, schedule.NewTimeline(), &r.step, KernelModel, 1); math.Abs(again/end-1) > 1e-12 {
			t.Errorf("%s: placed again it ends at %g s, expected %g", name, again, end)
		}
	}
}

// By hand: the third line ties with the first, and the second does not. One line is faster than the
// third beyond the errors, and three are faster than the last.
func TestRankPlaces(t *testing.T) {
	ties := map[[2]int]bool{{0, 2}: true}
	order, places := Places(4, func(first, later int) bool { return ties[[2]int{first, later}] })
	if !slices.Equal(order, []int{0, 1, 2, 3}) || !slices.Equal(places, []string{"1", "2=", "2=", "4"}) {
		t.Errorf("order %v, places %v", order, places)
	}
	ties[[2]int{1, 2}] = true
	order, places = Places(4, func(first, later int) bool { return ties[[2]int{first, later}] })
	if !slices.Equal(order, []int{0, 2, 1, 3}) || !slices.Equal(places, []string{"1=", "1=", "2", "4"}) {
		t.Errorf("order %v, places %v", order, places)
	}
}

// The factors are the 95th percentiles of errors on measurements that the fits left out.
func TestUncertainty(t *testing.T) {
	page, err := os.ReadFile("../kernel/ERRORS.md") // a test of cmd/cli holds it current
	fatal.If(t, err)
	largest := map[string]float64{}
	for line := range strings.Lines(string(page)) {
		cells := slice.Map(strings.Split(line, "|"), strings.TrimSpace)
		if len(cells) < 8 || cells[3] != "layer" {
			continue
		}
		p95, err := strconv.ParseFloat(cells[7], 64)
		fatal.If(t, err)
		largest[cells[1]] = max(largest[cells[1]], p95/100)
	}
	lib, err := hardware.Load("")
	fatal.If(t, err)
	rows, err := fit.Compare(lib)
	fatal.If(t, err)
	byKind := map[string][]float64{}
	for _, r := range rows {
		e := cmp.Or(r.LeftOut, r.Error)
		// A dense grid of one script on one link would hide how far other links are off.
		if e != nil && !r.Sets && !r.AtMost && !r.Own() {
			byKind[r.Kind] = append(byKind[r.Kind], max(*e, 1/(1+*e)-1)) // the larger of the two ratios of times
		}
	}
	for kind, errors := range byKind {
		slices.Sort(errors)
		largest[kind] = errors[int(math.Ceil(0.95*float64(len(errors))))-1]
	}
	for _, c := range []struct {
		name, errors string
		factor       float64
	}{
		{"kernelFactor", "device", kernelFactor}, {"ownKernelFactor", "width", ownKernelFactor},
		{"linkFactor", "link", linkFactor}, {"driveFactor", "drive", driveFactor},
	} {
		if want := 1 + math.Ceil(100*largest[c.errors])/100; math.Abs(c.factor-want) > 1e-9 {
			t.Errorf("%s is %g, the errors give %g", c.name, c.factor, want)
		}
	}
}
