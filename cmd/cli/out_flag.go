package cli

import "github.com/spf13/pflag"

// outFlag names what a command writes: --out, -o for short. outAlias is another spelling.
const (
	outFlag  = "out"
	outAlias = "output"
)

// outVar adds it.
func outVar(fl *pflag.FlagSet, value *string, usage string) {
	fl.StringVarP(value, outFlag, "o", "", usage)
}

// oneName makes two spellings one flag.
func oneName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == outAlias {
		name = outFlag
	}
	return pflag.NormalizedName(name)
}
