package policies

import (
	"strings"
	"testing"
)

type optionValues struct {
	steps int
	gamma float64
	mode  string
}

func parseTestOptions(text string) (v optionValues, canonical string, err error) {
	v = optionValues{steps: 16, gamma: 0.95, mode: "keep"}
	canonical, err = ParseOptions(text, Int("half_life", &v.steps, 1, 1000), Float("gamma", &v.gamma, 0, 0.99), Word("mode", &v.mode, "keep", "forget"))
	return
}

func TestParseOptions(t *testing.T) {
	for _, c := range []struct {
		text, canonical string
		want            optionValues
	}{
		{"", "half_life=16,gamma=0.95,mode=keep", optionValues{16, 0.95, "keep"}},
		{"half_life=3", "half_life=3,gamma=0.95,mode=keep", optionValues{3, 0.95, "keep"}},
		{"gamma=.5,half_life=1000", "half_life=1000,gamma=0.5,mode=keep", optionValues{1000, 0.5, "keep"}},
		{"mode=forget,gamma=-0", "half_life=16,gamma=0,mode=forget", optionValues{16, 0, "forget"}},
		{"gamma=1e-3,half_life=+7", "half_life=7,gamma=0.001,mode=keep", optionValues{7, 0.001, "keep"}},
	} {
		v, canonical, err := parseTestOptions(c.text)
		if err != nil || v != c.want || canonical != c.canonical {
			t.Errorf("%q: %+v, %q, %v; want %+v, %q", c.text, v, canonical, err, c.want, c.canonical)
		}
		if again, same, err := parseTestOptions(canonical); err != nil || again != v || same != canonical {
			t.Errorf("%q does not parse back: %+v, %q, %v", canonical, again, same, err)
		}
	}
}

func TestParseOptionsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"half_live=3":                    `unknown option "half_live", did you mean half_life?; known: half_life, gamma, mode`,
		"zzz=3":                          `unknown option "zzz"; known: half_life, gamma, mode`,
		"half_life=0":                    "half_life=0 is not between 1 and 1000",
		"half_life=1001":                 "half_life=1001 is not between 1 and 1000",
		"half_life=99999999999999999999": "is not between 1 and 1000",
		"half_life=1.5":                  "half_life=1.5 is not an integer",
		"half_life=":                     "half_life= is not an integer",
		"gamma=1":                        "gamma=1 is not between 0 and 0.99",
		"gamma=1e999":                    "gamma=1e999 is not between 0 and 0.99",
		"gamma=NaN":                      "gamma=NaN is not a number",
		"gamma=x":                        "gamma=x is not a number",
		"mode=forgot":                    "mode=forgot is none of keep, forget, did you mean forget?",
		"16":                             `option "16" is not name=value, as in half_life=`,
		"half_life=3,":                   `option "" is not name=value`,
		"gamma=.5,gamma=.6":              "option gamma appears twice",
	} {
		if _, _, err := parseTestOptions(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
