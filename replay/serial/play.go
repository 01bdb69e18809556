package serial

import "strings"

// tallied holds the counts of one cache on one stream, for steps ≥ 0.
type tallied struct{ accesses, misses, births int64 }

// play plays the accesses through a cache one by one.
func play(policy string, blocks int, accesses []access) (n tallied, err error) {
	name, options, _ := strings.Cut(policy, ":")
	c, err := caches[name](blocks, options)
	if err != nil {
		return n, err
	}
	for _, a := range accesses {
		_, hit := c.get(a.block)
		if !hit {
			c.add(a.block, struct{}{})
		}
		if a.step >= 0 {
			n.count(a, hit)
		}
	}
	return n, nil
}

func (n *tallied) count(a access, hit bool) {
	n.accesses++
	if hit {
		return
	}
	n.misses++
	if a.newborn {
		n.births++
	}
}
