package result_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// One size has one spelling, which is unchanged by CapacityText. A text that is no size is
// unchanged too.
func TestCapacityText(t *testing.T) {
	for want, spellings := range map[string][]string{
		"4x":                    {"4.0x", "4.00x", "04x", "0.4e1x"},
		"1.25x":                 {"1.250x"},
		"0.2ctx":                {".2ctx", "0.20ctx"},
		"1024":                  {"01024"},
		"1MiB":                  {"1.0MiB", "1024KiB", "1 MiB", "1048576B", "1,024KiB", "1miB"},
		"1.5GiB":                {"1536MiB"},
		"64KB":                  {"64kB", "0.064MB", "62.5KiB"},
		"1KB":                   {"1.000KB", "1000B"},
		"1234567B":              {"1.234567MB"},
		"1x+2x@64":              {"1.0x+2x@64", "1x+2.0x@064"},
		"8+9@3":                 {"08+9@3"},
		"peak:window:2":         nil,
		"peak:a:x+01":           nil,
		"peak:a:x=1.0":          nil,
		"plan:m@2.0x":           nil,
		"plan:a+b@2.0x":         nil,
		"":                      nil,
		"lots":                  nil,
		"x":                     nil,
		"-1.0x":                 nil,
		"Infx":                  nil,
		"18446744073709551615B": nil,
	} {
		for _, text := range append(spellings, want) {
			if got := result.CapacityText(text); got != want {
				t.Errorf("%q is spelled %q, want %q", text, got, want)
			}
		}
	}
}
