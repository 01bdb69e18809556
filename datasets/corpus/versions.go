package corpus

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// versionsFile lists the ranked traces of every version with their digests.
//
//go:embed versions.csv
var versionsFile []byte

// Version is a version of the ranked traces of the corpus. A version never changes: other traces make
// a new one.
type Version struct {
	Number int
	// Digests are those of the traces, by file name.
	Digests map[string]string
}

// Latest returns the last version.
func Latest() *Version { return &versions()[len(versions())-1] }

// versions returns all versions, in ascending order.
var versions = sync.OnceValue(func() (all []Version) {
	for i, line := range strings.Split(strings.TrimSpace(string(versionsFile)), "\n") {
		fields := strings.Split(line, ",")
		if i == 0 {
			continue
		}
		n, err := strconv.Atoi(fields[0])
		if err != nil || len(fields) != 3 || n < len(all) || n > len(all)+1 {
			panic(fmt.Sprintf("a bug: line %d of versions.csv: %q", i+1, line))
		}
		if n > len(all) {
			all = append(all, Version{n, map[string]string{}})
		}
		all[n-1].Digests[fields[1]] = fields[2]
	}
	return all
})

// Capacities are those of the board of every version, in multiples of K.
var Capacities = []string{"1.25x", "1.5x", "2x", "3x", "4x"}

// Split is a part of a version.
type Split string

// The parts. Authors choose options and constants of a policy on the open traces only.
const (
	Whole   Split = "all"
	Open    Split = "open"
	HeldOut Split = "held-out"
)

// heldOutShare is the share of the traces that are held out: 3 of 7.
const heldOutShare = 3. / 7

// Part returns the file names of a part, sorted. A hash of version and name chooses the held-out
// traces, so that another version holds out others.
func (v *Version) Part(s Split) []string {
	order := func(name string) []byte {
		sum := sha256.Sum256(fmt.Appendf(nil, "kvreplay corpus %d %s", v.Number, name))
		return sum[:]
	}
	names := slices.SortedFunc(maps.Keys(v.Digests), func(a, b string) int { return bytes.Compare(order(a), order(b)) })
	held := int(float64(len(names))*heldOutShare + 0.5)
	switch s {
	case HeldOut:
		names = names[:held]
	case Open:
		names = names[held:]
	}
	slices.Sort(names)
	return names
}

// Find returns the latest version and the part that has exactly the given traces, digests by file name.
// It returns nil if there is none.
func Find(digests map[string]string) (*Version, Split) {
	for _, v := range slices.Backward(versions()) {
		for _, s := range []Split{Whole, Open, HeldOut} {
			part := v.Part(s)
			if len(part) == len(digests) && !slices.ContainsFunc(part, func(name string) bool { return digests[name] != v.Digests[name] }) {
				return &v, s
			}
		}
	}
	return nil, ""
}
