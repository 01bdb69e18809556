package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/names"
)

// flagError says what is wrong with a flag: an unknown one is offered the nearest, a bad
// value what was expected.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return usagef("--%s %q: %s; see `%s --help`", invalid.GetFlag().Name, invalid.GetValue(), whatFails(invalid), c.CommandPath())
	}
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return usagef("%w; see `%s --help`", err, c.CommandPath())
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		known = append(known, f.Name)
		for alias, flag := range flagAliases {
			if flag == f.Name {
				known = append(known, alias)
			}
		}
	})
	near := names.Near(name, known)
	for i := range near {
		near[i] = "--" + near[i]
	}
	return usagef("unknown flag --%s%s; `%s --help` lists them", name, names.DidYouMean(near), c.CommandPath())
}

// expected are what flags take, by the type of their value.
var expected = map[string]string{
	"int": "a whole number", "int64": "a whole number", "intSlice": "whole numbers", "int64Slice": "whole numbers", "uint64": "a whole number of at least 0",
	"float64": "a number", "bool": "true or false", "duration": "a time with its unit, as in 30s or 50ms",
}

// whatFails says why a value cannot be read.
func whatFails(err *pflag.InvalidValueError) string {
	what, known := expected[err.GetFlag().Value.Type()]
	switch {
	case !known:
		return err.Unwrap().Error()
	case errors.Is(err, strconv.ErrRange):
		return "out of range"
	}
	return "expected " + what
}
