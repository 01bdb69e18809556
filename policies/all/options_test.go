package all_test

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
)

// The default options of a policy are those that its documentation states.
func TestDefaults(t *testing.T) {
	table := all.Table()
	for name, want := range map[string]string{
		"2q":           "kin=0.25,kout=0.5",
		"adakv":        "window=32,kernel=7,pooling=max,alpha=0.2",
		"block-lfu":    "admit=0",
		"duoattention": "full=0.5,stream=0.5,sink=64,recent=256",
		"h2o":          "recent=0.5,scores=attention",
		"lfu-decay":    "half_life=16",
		"lirs":         "hir=0.01",
		"lrfu":         "gamma=0.95,history=keep",
		"near-lrfu":    "gamma=0.97,w=2,history=keep",
		"pyramidkv":    "window=8,kernel=7,pooling=max,beta=20",
		"s3-fifo":      "small=0.1",
		"score-ewma":   "decay=0.8",
		"snapkv":       "window=32,kernel=7,pooling=max",
		"streamingllm": "sink=4",
	} {
		if spec, err := table.Parse(name); err != nil || spec.Options != want {
			t.Errorf("%s: %q, %v; want %q", name, spec.Options, err, want)
		}
	}
}

// An option accepts both ends of its range and rejects values beyond.
func TestRanges(t *testing.T) {
	ranges := map[string][4]string{ // below, the ends, above
		"2q:kin=":              {"-0.001", "0", "1", "1.001"},
		"2q:kout=":             {"-0.001", "0", "8", "8.001"},
		"adakv:alpha=":         {"-0.001", "0", "1", "1.001"},
		"adakv:kernel=":        {"0", "1", "65535", "65536"},
		"adakv:window=":        {"-1", "0", "1048576", "1048577"},
		"block-lfu:admit=":     {"-1", "0", "2147483647", "2147483648"},
		"duoattention:full=":   {"-0.001", "0", "1", "1.001"},
		"duoattention:recent=": {"0", "1", "1048576", "1048577"},
		"duoattention:sink=":   {"-1", "0", "1048576", "1048577"},
		"duoattention:stream=": {"-0.001", "0", "1", "1.001"},
		"h2o:recent=":          {"-0.001", "0", "1", "1.001"},
		"lfu-decay:half_life=": {"0", "1", "1048576", "1048577"},
		"lirs:hir=":            {"-0.001", "0", "1", "1.001"},
		"lrfu:gamma=":          {"0.099", "0.1", "0.99999", "0.999991"},
		"near-lrfu:gamma=":     {"0.099", "0.1", "0.99999", "0.999991"},
		"near-lrfu:w=":         {"-0.001", "0", "20", "20.001"},
		"pyramidkv:beta=":      {"0", "1", "1000", "1001"},
		"pyramidkv:kernel=":    {"0", "1", "65535", "65536"},
		"pyramidkv:window=":    {"-1", "0", "1048576", "1048577"},
		"s3-fifo:small=":       {"0.009", "0.01", "0.9", "0.901"},
		"score-ewma:decay=":    {"-0.001", "0", "1", "1.001"},
		"snapkv:kernel=":       {"0", "1", "65535", "65536"},
		"snapkv:window=":       {"-1", "0", "1048576", "1048577"},
		"streamingllm:sink=":   {"-1", "0", "1048576", "1048577"},
		"window:":              {"-1", "0", "1073741824", "1073741825"},
	}
	table := all.Table()
	for option, values := range ranges {
		for i, value := range values {
			spec, err := table.Parse(option + value)
			if inside := i == 1 || i == 2; inside != (err == nil) {
				t.Errorf("%s%s: %q, %v; the range is %s to %s", option, value, spec.Options, err, values[1], values[2])
			}
		}
	}
	for _, e := range table { // none is left out
		spec, err := table.Parse(strings.TrimSuffix(e.Name+":"+e.Example, ":"))
		fatal.If(t, err)
		for item := range strings.SplitSeq(spec.Options, ",") {
			name, value, _ := strings.Cut(item, "=")
			if _, ok := ranges[e.Name+":"+name+"="]; !ok && strings.ContainsAny(value, "0123456789") {
				t.Errorf("%s: the range of option %s is not checked", e.Name, name)
			}
		}
	}
}
