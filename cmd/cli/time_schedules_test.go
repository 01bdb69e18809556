package cli_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/replay/pipeline"
)

// All schedules are those that the batch and what is priced allow; the others are named.
func TestEverySchedule(t *testing.T) {
	out := profiled(t)
	all := pipeline.ScheduleNames()
	alone := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "tbo" })
	for _, c := range []struct {
		args, want []string
		said       string
	}{
		{[]string{out, "--policy", "lru", "--layer-map", "nearest", "--steps", "1", "--batch", "2"}, all, ""},
		{[]string{out, "--policy", "lru", "--layer-map", "nearest", "--steps", "1"}, alone, "a batch of 1 is too small to divide (--batch): tbo\n"},
		{[]string{"--prompt", "256", "--generate", "2", "--model", "opt-6.7b"}, []string{"kvpr", "flexgen", "ellm", "dense"}, "as they need a profile: sequential:lookup=gpu, "},
	} {
		code, stdout, stderr := run(append([]string{"time", "--schedule", "all", "--format", "csv"}, c.args...)...)
		rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
		if code != 0 || err != nil {
			t.Fatalf("%v: exit %d, %v: %s", c.args, code, err, stderr)
		}
		var got []string
		for _, row := range rows[1:] {
			name, _, _ := strings.Cut(row[2], ":")
			got = append(got, name)
		}
		if !slices.Equal(got, c.want) || !strings.Contains(stderr, c.said) || c.said == "" && stderr != "" {
			t.Errorf("%v: %v, expected %v; said %q", c.args, got, c.want, stderr)
		}
	}
}
