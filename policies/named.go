package policies

import (
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/names"
)

// Named returns the policy of rows or of a profile that a user means by name. That is the policy of
// exactly that name, or else the only one that matches it. A name without options matches:
// "s3-fifo" matches "s3-fifo:small=0.1". Case is ignored. If none or several match, Named returns
// name unchanged.
func Named(name string, among []string) string {
	if slices.Contains(among, name) {
		return name
	}
	wanted, options, exact := strings.Cut(name, ":")
	found := name
	for _, p := range among {
		n, o, _ := strings.Cut(p, ":")
		if p == found || names.Match(wanted, []string{n}) == nil || exact && o != options {
			continue
		}
		if found != name {
			return name
		}
		found = p
	}
	return found
}
