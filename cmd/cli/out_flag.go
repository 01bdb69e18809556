package cli

import "github.com/spf13/pflag"

// outFlag names what a command writes: --out, -o for short.
const outFlag = "out"

// outVar adds it.
func outVar(fl *pflag.FlagSet, value *string, usage string) {
	fl.StringVarP(value, outFlag, "o", "", usage)
}
