package serial

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/golang-lru/arc/v2"
	lru2 "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
)

// cache has the common methods of the caches of golang-lru, without the result of Add.
type cache struct {
	get func(int32) (struct{}, bool)
	add func(int32, struct{})
}

// caches make a cache with a number of blocks. options are those of the policy with the same name.
var caches = map[string]func(blocks int, options string) (cache, error){
	"lru": func(blocks int, _ string) (cache, error) {
		c, err := simplelru.NewLRU[int32, struct{}](blocks, nil)
		if err != nil {
			return cache{}, err
		}
		return cache{c.Get, func(x int32, v struct{}) { c.Add(x, v) }}, nil
	},
	"2q": func(blocks int, options string) (cache, error) {
		kin, kout := lru2.Default2QRecentRatio, lru2.Default2QGhostEntries
		if _, err := policies.ParseOptions(options, policies.Float("kin", &kin, 0, 1), policies.Float("kout", &kout, 0, 1)); err != nil {
			return cache{}, fmt.Errorf("golang-lru's 2Q: %w", err)
		}
		c, err := lru2.New2QParams[int32, struct{}](blocks, kin, kout)
		if err != nil {
			return cache{}, fmt.Errorf("golang-lru's 2Q of %d blocks and a share of ghosts of %g: %w", blocks, kout, err)
		}
		return cache{c.Get, c.Add}, nil
	},
	"arc": func(blocks int, _ string) (cache, error) {
		c, err := arc.NewARC[int32, struct{}](blocks)
		if err != nil {
			return cache{}, err
		}
		return cache{c.Get, c.Add}, nil
	},
}

// Policies returns the names of the policies that have a per-access cache.
func Policies() []string { return slices.Sorted(maps.Keys(caches)) }

func lru() []policies.Spec {
	spec, err := all.Table().Parse("lru")
	if err != nil {
		panic(err)
	}
	return []policies.Spec{spec}
}
