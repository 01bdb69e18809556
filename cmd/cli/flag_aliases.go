package cli

import "github.com/spf13/pflag"

// flagAliases are other spellings of flags.
var flagAliases = map[string]string{"output": outFlag, "depth": depthFlag}

// oneName makes two spellings one flag.
func oneName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if flag, ok := flagAliases[name]; ok {
		name = flag
	}
	return pflag.NormalizedName(name)
}
