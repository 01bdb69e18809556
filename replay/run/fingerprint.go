package run

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"sync"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// Fingerprint returns a digest of every decision that a policy takes on a fixed set of
// streams. If its rule is edited, a policy gets another fingerprint, although its name and
// options stay the same. It keeps its fingerprint if the edit changes no decision there.
//
// The engine replays the streams as it replays traces. They have births, pinned blocks,
// ties, gaps, lists without ranks and every warm-up. Capacities range from one block to three
// times the demand. If the policy supports them, the trials include blocks of several
// entries, clusters, pools, changing capacities, swaps and tiers. They also include the
// passes of a Sweeper, the budgets of a Divider and the version of a Versioner. Only integers go into the digest, so it
// does not depend on the processor. An error or a panic of the policy counts as a decision. It ends the
// trials of a Versioner, because a program that hangs would delay each of them.
//
// Fingerprint remembers its answer for each entry of a policies.Table and its options, so a
// run computes it once. It takes a few milliseconds.
func Fingerprint(spec policies.Spec) string {
	key := fingerprintKey{spec.Entry, spec.Options}
	fingerprints.Lock()
	defer fingerprints.Unlock()
	if known, ok := fingerprints.of[key]; ok {
		return known
	}
	f := fingerprinter{spec: spec, sum: sha256.New()}
	fingerprints.of[key] = f.run()
	return fingerprints.of[key]
}

// fingerprints caches computed fingerprints. The lock also guards the trials.
var fingerprints = struct {
	sync.Mutex
	of map[fingerprintKey]string
}{of: map[fingerprintKey]string{}}

type fingerprintKey struct {
	entry   *policies.Entry
	options string
}

// fingerprintVersion changes with the trials, and with how decisions are digested.
const fingerprintVersion = 1

// fingerprintBytes is the length of a fingerprint. 64 bits are enough to notice an edit.
const fingerprintBytes = 8

// fingerprinter digests the decisions of one policy.
type fingerprinter struct {
	spec      policies.Spec
	policy    policies.Policy // a new one after a panic
	versioned bool            // it is a Versioner
	sum       hash.Hash
	text      []byte // not in sum yet
	errors    int    // errors and panics
}

// Marks in the digest for values that are not lists.
const (
	markError = -1 - iota
	markPanic
	markTrial
)

func (f *fingerprinter) run() string {
	traits := f.spec.Entry.Traits
	f.attempt(func() {
		f.number(fingerprintVersion, int64(policies.NeedsOf(f.policy)), int64(abilities(f.policy)))
		f.flags(traits.Windowed, traits.Lossy, traits.Sized)
		if v, ok := f.policy.(policies.Versioner); ok {
			f.versioned = true
			f.text = append(f.text, v.Version()...)
		}
	})
	all := trials()
	for i := range all {
		t := &all[i]
		f.number(markTrial, int64(i))
		f.attempt(func() {
			switch {
			case traits.Lossy:
				f.lossy(t)
			case f.suits(t):
				f.exact(t)
			}
		})
	}
	f.attempt(func() { f.passes(all) })
	f.attempt(func() { f.divisions() })
	release(f.policy)
	f.sum.Write(f.text)
	return hex.EncodeToString(f.sum.Sum(nil)[:fingerprintBytes])
}

// abilities returns the optional interfaces of a policy that change counts, one bit each.
func abilities(p policies.Policy) (set int) {
	_, bypasses := p.(policies.Bypasser)
	_, admits := p.(policies.Admitter)
	_, resizes := p.(policies.Resizer)
	_, peeks := p.(policies.Peeker)
	_, lossy := p.(policies.Lossy)
	_, divides := p.(policies.Divider)
	for i, has := range []bool{bypasses, admits, resizes, peeks, lossy, divides} {
		if has {
			set |= 1 << i
		}
	}
	return set
}

// attempt calls ask, which calls the policy. After a panic it adds a mark to the digest, and the
// next attempt makes a new policy. After an error of a Versioner it does nothing.
func (f *fingerprinter) attempt(ask func()) {
	if f.versioned && f.errors > 0 {
		return
	}
	defer func() {
		if recover() != nil {
			f.number(markPanic)
			f.policy, f.errors = nil, f.errors+1
		}
	}()
	if f.policy == nil {
		f.policy = f.spec.Make()
	}
	ask()
}

// suits reports whether a run accepts an exact policy in this trial. The table of conflicts decides
// about mechanisms.
func (f *fingerprinter) suits(t *trial) bool {
	needs, windowed := policies.NeedsOf(f.policy), f.spec.Entry.Traits.Windowed
	switch {
	case needs&policies.NeedCandidates != 0 && !t.start.Ranks, needs&policies.NeedPicked != 0 && t.kind != inBlocksOf && t.kind != inClusters:
		return false
	case windowed && (t.again || len(t.start.Placed) > 0 || t.kind == grows):
		return false // it has no capacity
	}
	with, ok := trialMechanisms[t.kind]
	return !ok || setting.Unfit(f.spec, with) == ""
}

// trialMechanisms are the mechanisms of trials that some exact policies do not support.
var trialMechanisms = map[trialKind]setting.Mechanism{inClusters: setting.UseClusters, grows: setting.AtChanging, swaps: setting.UseSwap,
	belowLRU: setting.AsTier, belowLRUCopy: setting.AsTier}

// exact replays a trial with an exact policy and digests every step.
func (f *fingerprinter) exact(t *trial) {
	st, c := t.start, cache.NewCell(f.policy)
	if f.spec.Entry.Traits.Windowed {
		st.Capacity = policies.Unbounded
	}
	var err error
	if t.kind == belowLRU || t.kind == belowLRUCopy {
		top, lower := cache.NewCell(new(lru.Policy)), st
		top.Lower = cache.NewTier(c, t.kind == belowLRUCopy)
		st.Capacity = max(1, st.Capacity/2)
		_, err = top.Run(t.view, st, nil, cache.TierStart{Start: lower, Observer: f.look})
	} else {
		_, err = c.Run(t.view, st, f.look)
	}
	f.failed(err)
}

// lossy replays a trial with a lossy policy and digests every step.
func (f *fingerprinter) lossy(t *trial) {
	if t.kind != asRecorded || policies.NeedsOf(f.policy)&policies.NeedCandidates != 0 && !t.start.Ranks {
		return
	}
	st := t.start
	st.Attention = demand.Attention{Weights: true}
	_, err := cache.NewLossyCell(f.policy).Run(t.view, st, f.look)
	f.failed(err)
}

// passes digests the answers of a Sweeper. A run at several capacities takes its counts from them.
func (f *fingerprinter) passes(all []trial) {
	w := cache.NewSweep(f.policy)
	if w == nil {
		return
	}
	pass := w.Pass
	for i := range all {
		t := &all[i]
		if t.kind != asRecorded || t.again || len(t.start.Placed) > 0 {
			continue
		}
		sizes := []int32{pass.Size(policies.Unbounded)}
		if !f.spec.Entry.Traits.Windowed {
			sizes = sizes[:0]
			for _, more := range []int{0, 1, 5, 20} {
				sizes = append(sizes, pass.Size(t.view.Size().MaxDemand+more))
			}
		}
		counts, err := w.Run(t.view, sizes, t.start)
		f.failed(err)
		for _, n := range counts {
			f.number(n.Misses, n.Evictions, n.ResidentSum, n.ResidentPeak)
		}
	}
}

// divisions digests the budgets that a Divider gives the streams of a request.
func (f *fingerprinter) divisions() {
	divider, ok := f.policy.(policies.Divider)
	if !ok {
		return
	}
	var streams []policies.Surveyed
	prompts := heads()
	for i := range prompts {
		p := &prompts[i]
		streams = append(streams, policies.Surveyed{Layer: p.Layer, Head: p.Head, Most: p.Most, Values: divider.Survey(p, nil)})
	}
	for _, share := range []int{1, 4, 16, 48, 96, 127} { // 128ths of the blocks that a stream can use
		given := slices.Clone(streams)
		for i := range given {
			given[i].Capacity = 1 + given[i].Most*share/128
		}
		for _, budget := range divider.Divide(given) {
			f.number(int64(budget))
		}
	}
}

func (f *fingerprinter) look(r *cache.StepReport) {
	f.list(r.Misses)
	f.list(r.Victims)
	f.list(r.KeptOut)
	f.list(r.Lost)
	f.number(int64(r.Resident), r.Moved, r.Prefetched.Moved)
}

// failed digests the fact that a replay ended with an error, without the error's text.
func (f *fingerprinter) failed(err error) {
	if err != nil {
		f.number(markError)
		f.errors++
	}
}

func (f *fingerprinter) flags(all ...bool) {
	for _, set := range all {
		n := int64(0)
		if set {
			n = 1
		}
		f.number(n)
	}
}

func (f *fingerprinter) number(all ...int64) {
	for _, n := range all {
		f.text = binary.AppendVarint(f.text, n)
	}
}

func (f *fingerprinter) list(blocks []int32) {
	f.number(int64(len(blocks)))
	for _, x := range blocks {
		f.text = binary.AppendVarint(f.text, int64(x))
	}
	if len(f.text) > 1<<12 {
		f.sum.Write(f.text)
		f.text = f.text[:0]
	}
}
