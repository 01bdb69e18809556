package cli

import (
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
)

// atLeastOne refuses flags that are given as less than 1. Left out they have a default,
// which 0 does not stand for.
func atLeastOne(c *cobra.Command, names ...string) error {
	for _, name := range names {
		f := c.Flags().Lookup(name)
		if v, err := strconv.ParseFloat(f.Value.String(), 64); f.Changed && (err != nil || !(v >= 1)) { // NaN neither
			return usagef("--%s %s: expected at least 1", name, f.Value)
		}
	}
	return nil
}

// count is "1 row", "2 rows", "1,000 rows".
func count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return humanize.Comma(int64(n)) + " " + what + "s"
}
