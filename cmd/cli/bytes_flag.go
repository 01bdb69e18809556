package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
)

// bytesFlag is a flag of bytes, with or without a unit: 656, 4KiB.
type bytesFlag[N int | int64] struct{ value *N }

var _ pflag.Value = bytesFlag[int]{}

// bytesVar adds such a flag.
func bytesVar[N int | int64](fl *pflag.FlagSet, value *N, name string, usual N, usage string) {
	*value = usual
	fl.Var(bytesFlag[N]{value}, name, usage)
}

// mostBytes is the largest entry or block: products with counts have 63 bits.
const mostBytes = 1 << 30

func (b bytesFlag[N]) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64) // negative ones are refused where 0 is
	if err != nil {
		size, err := humanize.ParseBytes(text)
		if err != nil || !strings.HasSuffix(text, "B") || isFraction(strings.TrimRight(text, " B")) {
			return errors.New("expected whole bytes, as in 656 or 4KiB; Kb are bits")
		}
		n = int64(min(size, math.MaxInt64))
	}
	if n > mostBytes {
		return errors.New("expected at most 1GiB")
	}
	*b.value = N(n)
	return nil
}

// isFraction says whether a number without a unit is not whole.
func isFraction(number string) bool {
	v, err := strconv.ParseFloat(number, 64)
	return err == nil && v != math.Trunc(v)
}

// String is the number, as manifests and help show it.
func (b bytesFlag[N]) String() string {
	if b.value == nil {
		return ""
	}
	return fmt.Sprint(*b.value)
}

// Type is what help calls the value.
func (bytesFlag[N]) Type() string { return "bytes" }
