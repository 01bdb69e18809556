package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// everySchedule says whether all schedules are asked for.
func (f *timeFlags) everySchedule() bool {
	return len(f.schedules) == 1 && strings.EqualFold(f.schedules[0], "all")
}

// leaveOut drops of all schedules those that the batch or the described requests do not
// allow, and says so.
func (f *timeFlags) leaveOut(w io.Writer) {
	if !f.everySchedule() {
		return
	}
	var small, profile []string
	f.parsedSchedules = slices.DeleteFunc(f.parsedSchedules, func(s pipeline.Schedule) bool {
		switch {
		case f.decoding.asked() && !pipeline.AttendsDensely(s):
			profile = append(profile, s.Name())
		case s.Parts() > f.options.Batch:
			small = append(small, s.Name())
		default:
			return false
		}
		return true
	})
	if len(small) > 0 {
		fmt.Fprintf(w, "kvreplay: left out, as a batch of %d is too small to divide (--batch): %s\n", f.options.Batch, strings.Join(small, ", "))
	}
	if len(profile) > 0 {
		fmt.Fprintf(w, "kvreplay: left out, as they need a profile: %s\n", strings.Join(profile, ", "))
	}
}
