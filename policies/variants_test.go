package policies_test

import (
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
)

func TestVariants(t *testing.T) {
	for text, want := range map[string]struct{ names, varied string }{
		"lrfu:gamma=0.9..0.99/4":            {"lrfu:gamma=0.9,history=keep lrfu:gamma=0.93,history=keep lrfu:gamma=0.96,history=keep lrfu:gamma=0.99,history=keep", "gamma"},
		"lfu-decay:half_life=64|128|64":     {"lfu-decay:half_life=64 lfu-decay:half_life=128", "half_life"},
		"lfu-decay:half_life=1..4":          {"lfu-decay:half_life=1 lfu-decay:half_life=2 lfu-decay:half_life=3 lfu-decay:half_life=4", "half_life"},
		"ECHO:calibrate=on|off":             {"echo:calibrate=on echo:calibrate=off", "calibrate"},
		"s3-fifo:small=0.1..0.30/3":         {"s3-fifo:small=0.1 s3-fifo:small=0.2 s3-fifo:small=0.3", "small"},
		"2q:kin=0.1|0.2,kout=1|2":           {"2q:kin=0.1,kout=1 2q:kin=0.1,kout=2 2q:kin=0.2,kout=1 2q:kin=0.2,kout=2", "kin kout"},
		"lrfu:history=forget,gamma=.5|1e-1": {"lrfu:gamma=0.5,history=forget lrfu:gamma=0.1,history=forget", "gamma"},
	} {
		specs, varied, err := all.Table().Variants(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := strings.Join(slice.Map(specs, policies.Spec.Name), " "); got != want.names || strings.Join(varied, " ") != want.varied {
			t.Errorf("%s: %s by %v, expected %+v", text, got, varied, want)
		}
	}
	for text, want := range map[string]string{
		"lru": "expected an option with values", "lrfu:gamma=0.9": "has one variant", "lrfu:gamma=0.99..0.9": "the lower one first",
		"lrfu:gamma=0.9..x": "expected two numbers", "lrfu:gamma=0.9..0.99/1": "expected 2 to 100 values", "lrfu:gamma=0.5..3": "is not between",
		"lrfu:gama=0.5|0.6": "unknown option", "lrf:gamma=0.5|0.6": "did you mean lrfu", "lrfu:gamma=0..1e999": "expected two numbers",
		"lrfu:gamma=" + strings.Repeat("1|", 200) + "1": "more than 100 variants",
	} {
		if _, _, err := all.Table().Variants(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, expected %q", text, err, want)
		}
	}
}
