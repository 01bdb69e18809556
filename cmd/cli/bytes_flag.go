package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"

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

func (b bytesFlag[N]) Set(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil { // negative ones are refused where 0 is
		*b.value = N(n)
		return nil
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return errors.New("expected bytes, as in 656 or 4KiB")
	}
	*b.value = N(n)
	return nil
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
