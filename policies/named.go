package policies

import "strings"

// Named is the policy that a name stands for among those that rows or profiles have: itself, or
// the only one that has the name and options behind it, as a replay of "s3-fifo" writes
// "s3-fifo:small=0.1". Where there is none, or several, it is the name as it stands.
func Named(name string, among []string) string {
	found := name
	for _, p := range among {
		if p == name {
			return name
		}
		if !strings.HasPrefix(p, name+":") || p == found {
			continue
		}
		if found != name {
			return name
		}
		found = p
	}
	return found
}
