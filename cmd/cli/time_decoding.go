package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// decodingFlags are the batch of equal requests that `kvreplay time` prices without a
// profile.
type decodingFlags struct {
	prompt, generate int
	static           bool
}

func (d *decodingFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.IntVar(&d.prompt, "prompt", 0, "without a profile: tokens of every request's prompt, for kvpr, flexgen, ellm and dense")
	fl.IntVar(&d.generate, "generate", 0, "without a profile: tokens that every request generates, the first of them by prefill")
	fl.BoolVar(&d.static, "static", false, "without a profile: the cache has prompt and generated positions from the first step on")
}

// asked says whether one of the flags is given.
func (d *decodingFlags) asked() bool { return d.prompt != 0 || d.generate != 0 || d.static }

// profileOrDecoding are the arguments of time.
func (f *timeFlags) profileOrDecoding(c *cobra.Command, args []string) error {
	if !f.decoding.asked() {
		return oneProfile(c, args)
	}
	if f.decoding.prompt == 0 && f.decoding.generate == 0 {
		return usagef("--static goes with --prompt and --generate")
	}
	if len(args) > 0 {
		return usagef("--prompt and --generate describe requests instead of a profile, %s is named as well", args[0])
	}
	if f.decoding.prompt < 1 || f.decoding.generate < 2 {
		return usagef("--prompt %d --generate %d: expected at least 1 and 2 tokens; the first is prefill's", f.decoding.prompt, f.decoding.generate)
	}
	for _, name := range []string{"policy", "capacity", "layer-map", "topk", "context", "seed"} {
		if c.Flags().Changed(name) {
			return usagef("--%s goes with a profile, not with --prompt and --generate", name)
		}
	}
	return nil
}

// decode sets the profile and scaling of the described requests.
func (f *timeFlags) decode() (err error) {
	if f.model == "" {
		return usagef("--prompt and --generate need a --model; known: %s", strings.Join(f.library.Names(hardware.KindModel), ", "))
	}
	for _, s := range f.parsedSchedules {
		if !pipeline.AttendsDensely(s) {
			return usagef("schedule %s needs a profile: without one there are %s", s.Name(), strings.Join(denseSchedules(), ", "))
		}
	}
	if err := f.findModel(f.model); err != nil {
		return err
	}
	f.profile, f.options.Scaling, err = pipeline.Decoding(f.decoding.prompt, f.decoding.generate, f.decoding.static, f.shape)
	return err
}

// denseSchedules are those that need no profile: they attend to the whole context, whatever
// a cache would miss.
func denseSchedules() []string {
	return slices.DeleteFunc(pipeline.ScheduleNames(), func(name string) bool {
		s, err := pipeline.ParseSchedule(name)
		return err != nil || !pipeline.AttendsDensely(s)
	})
}
