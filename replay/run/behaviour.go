package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/echo"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// behaviour is a policy and its fingerprint. policy is empty for the windows of an allocation.
type behaviour struct{ policy, fingerprint string }

func behaviourOf(spec policies.Spec) behaviour { return behaviour{spec.Name(), Fingerprint(spec)} }

// behaviours returns the behaviours on which the rows of a cell depend. The first is the cell's
// policy. If the capacity is another policy's peak, that policy follows. LRU follows if its misses
// divide the memory again. A predictor that prefetches follows. For a tier, the policies of the caches
// above it follow.
func (p *plan) behaviours(c *cellPlan) (all []behaviour) {
	if p.opt.Allocation != nil && p.opt.Allocation.Family == allocate.Windows && c.capacity == nil {
		all = p.plannedWindows(c)
	} else {
		all = []behaviour{behaviourOf(c.spec)}
	}
	if c.capacity != nil && c.capacity.Peak() != "" {
		at := slices.IndexFunc(p.opt.Policies, func(s policies.Spec) bool { return s.Name() == c.capacity.Peak() })
		if at >= 0 {
			all = append(all, behaviourOf(p.opt.Policies[at]))
		}
	}
	if c.capacity != nil && c.capacity.Form() == setting.OfPlan && p.opt.Reallocation.Every > 0 {
		all = append(all, behaviourOf(policies.Spec{Entry: &lru.Entry, Make: func() policies.Policy { return new(lru.Policy) }}))
	}
	if c.tier == 0 && p.opt.Prefetch.Source == setting.PrefetchEcho {
		all = append(all, behaviourOf(predictor))
	}
	if c.tier > 0 {
		all = append(all, p.behaviours(&p.cells[c.top])...)
		for _, t := range p.opt.Tiers[:c.tier-1] {
			all = append(all, behaviourOf(t.Policy))
		}
	}
	return all
}

// predictor is the policy whose scores a prefetcher uses.
var predictor = func() policies.Spec {
	make, options, err := echo.Entry.New("")
	if err != nil {
		panic(err) // its tests parse the same text
	}
	return policies.Spec{Entry: &echo.Entry, Options: options, Make: make}
}()

// plannedWindows returns two behaviours of a cell with allocated windows. The first has the window
// that the policy's entry gives as its example. Rows state this fingerprint, because it is the
// same under every allocation. The second digests the allocated windows.
func (p *plan) plannedWindows(c *cellPlan) (all []behaviour) {
	options := map[int]string{-1: c.spec.Entry.Example}
	for i := range p.streams {
		k := p.allocated(i)
		steps, _ := p.opt.Allocation.Window(k.Layer, k.Head) // checkAllocation has checked that it exists
		options[steps] = fmt.Sprint(steps)
	}
	var own, planned []string
	for _, steps := range slices.Sorted(maps.Keys(options)) {
		make, canonical, err := c.spec.Entry.New(options[steps])
		if err != nil {
			continue // the run ends with this error
		}
		f := Fingerprint(policies.Spec{Entry: c.spec.Entry, Options: canonical, Make: make})
		if steps < 0 {
			own = append(own, f)
		} else {
			planned = append(planned, f)
		}
	}
	return []behaviour{{c.spec.Name(), strings.Join(own, "")}, {"", hashOf(planned)}}
}

// dependsOn returns the text in which rows state the further behaviours of a cell.
func dependsOn(others []behaviour) string {
	var texts []string
	for _, b := range others {
		if b.policy != "" {
			texts = append(texts, b.policy+"="+b.fingerprint)
		}
	}
	return strings.Join(texts, " ")
}

func (p *plan) behaviourDigest() string {
	names := make([]string, len(p.cells))
	for i, k := range p.keys() {
		names[i] = k.name()
	}
	return hashOf(names)
}

// outdated is a cell in the store from before one of its policies changed.
type outdated struct {
	policies []string // policies that have changed since
	files    []string // files to remove when the cell is kept again
}

// findOutdated finds the cells of the plan that the store has under other fingerprints.
func (p *plan) findOutdated() error {
	p.outdated = make([]outdated, len(p.cells))
	if p.opt.Store == nil {
		return nil
	}
	keys := p.keys()
	settings, kept := make([]string, len(keys)), make(map[string][]string, len(keys))
	for i := range keys {
		settings[i] = hashOf(&keys[i])
		kept[settings[i]] = nil
	}
	if err := p.opt.Store.cellNames(p.setting.TraceDigest, kept); err != nil {
		return err
	}
	for i, k := range keys {
		o := &p.outdated[i]
		for _, name := range kept[settings[i]] {
			if name != k.name() {
				o.files = append(o.files, p.opt.Store.cellPath(k.TraceDigest, name))
				o.policies = append(o.policies, k.changed(name)...)
			}
		}
		slices.Sort(o.policies)
		o.policies = slices.Compact(o.policies)
	}
	return nil
}

// changed returns the policies of the key that have another fingerprint in the name of a cell.
func (k *cellKey) changed(name string) (policies []string) {
	old, now := strings.Split(name, "-")[1:], k.fingerprints()
	if len(old) != len(now) {
		return []string{k.Policy}
	}
	for i := range now {
		switch {
		case old[i] == now[i]:
		case len(k.Behaviours) > len(now) && i == len(now)-1:
			policies = append(policies, k.Policy)
		default:
			policies = append(policies, cmp.Or(k.Behaviours[i].policy, k.Policy))
		}
	}
	return policies
}

// cellNames adds the names of a trace's cells in the store to those of their setting's digest, which
// is the first part of a name. It leaves out cells whose digest names lacks. It removes what killed
// runs left in the folder.
func (s *Store) cellNames(trace string, names map[string][]string) error {
	folder := s.cellFolder(trace)
	files.Sweep(folder)
	err := files.Each(folder, func(e fs.DirEntry) {
		setting, _, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".jsonl"), "-")
		others, wanted := names[setting]
		if name, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok && wanted && e.Type().IsRegular() {
			names[setting] = append(others, name)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the trace has none
		return fmt.Errorf("read finished cells: %w", err)
	}
	return nil
}

// noteChanged counts in r the cells that are replayed because policies have changed.
func (p *plan) noteChanged(r *Result) {
	for i, o := range p.outdated {
		if p.kept[i] != nil {
			continue
		}
		for _, policy := range o.policies {
			if r.Changed == nil {
				r.Changed = map[string]int{}
			}
			r.Changed[policy]++
		}
	}
}
