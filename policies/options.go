package policies

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Option is one named value of a policy's options. Int, Float and Word make one from a variable
// with the default.
type Option struct {
	name string
	set  func(text string) error
	text func() string
}

// Int returns an integer option in [low, high]. *v has the default and takes the value.
func Int(name string, v *int, low, high int) Option {
	return Option{name: name, text: func() string { return strconv.Itoa(*v) }, set: func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%s=%s is not an integer", name, text)
		}
		if err != nil || n < low || n > high {
			return fmt.Errorf("%s=%s is not between %d and %d", name, text, low, high)
		}
		*v = n
		return nil
	}}
}

// Float returns a number option in [low, high]. *v has the default and takes the value.
func Float(name string, v *float64, low, high float64) Option {
	return Option{name: name, text: func() string { return formatFloat(*v) }, set: func(text string) error {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(x) {
			return fmt.Errorf("%s=%s is not a number", name, text)
		}
		if !(x >= low && x <= high) {
			return fmt.Errorf("%s=%s is not between %s and %s", name, text, formatFloat(low), formatFloat(high))
		}
		*v = x + 0 // -0 and 0 are one value, with one text
		return nil
	}}
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// Word returns an option for one of the given words. *v has the default and takes the value.
func Word(name string, v *string, words ...string) Option {
	return Option{name: name, text: func() string { return *v }, set: func(text string) error {
		for _, w := range words {
			if w == text {
				*v = w
				return nil
			}
		}
		return fmt.Errorf("%s=%s is none of %s%s", name, text, strings.Join(words, ", "), names.Nearest(text, words))
	}}
}

// ParseOptions reads "name=value[,name=value]" into the options' variables. An option that the text
// omits keeps its default. ParseOptions returns the canonical text. It states every option, in the
// order given here, and parses back to the same values.
func ParseOptions(text string, options ...Option) (canonical string, err error) {
	given := make(map[string]bool)
	for rest, more := text, text != ""; more; {
		var item string
		item, rest, more = strings.Cut(rest, ",")
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			err := fmt.Errorf("option %q is not name=value", item)
			if len(options) > 0 {
				err = fmt.Errorf("%w, as in %s=%s", err, options[0].name, options[0].text())
			}
			return "", err
		}
		if given[name] {
			return "", fmt.Errorf("option %s appears twice", name)
		}
		given[name] = true
		if err := setOption(options, name, value); err != nil {
			return "", err
		}
	}
	texts := slice.Map(options, func(o Option) string { return o.name + "=" + o.text() })
	return strings.Join(texts, ","), nil
}

// setOption sets the option called name.
func setOption(options []Option, name, value string) error {
	var known []string
	for _, o := range options {
		if o.name == name {
			return o.set(value)
		}
		known = append(known, o.name)
	}
	if known == nil {
		return fmt.Errorf("unknown option %q: expected none", name)
	}
	return fmt.Errorf("unknown option %q%s; known: %s", name, names.Nearest(name, known), strings.Join(known, ", "))
}
