package cli

import "github.com/spf13/pflag"

// depthFlag is how many reads the drives are given at once, of all commands that price them.
const depthFlag = "ssd-depth"

// usualDepth is its default, and what boards, which have no such flag, take.
const usualDepth = 64

// depthVar adds it.
func depthVar(fl *pflag.FlagSet, value *int64) {
	fl.Int64Var(value, depthFlag, usualDepth, "reads in flight to the drives, of all that share them; --depth is the same")
}
