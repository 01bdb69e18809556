package run

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/policies/lru"
)

// shippedSpecs returns all policies of the table, with the options of their examples.
func shippedSpecs(t testing.TB) (list []policies.Spec) {
	t.Helper()
	table := all.Table()
	for _, e := range table {
		_, options, err := e.New(e.Example)
		fatal.If(t, err)
		name := e.Name
		if options != "" {
			name += ":" + options
		}
		spec, err := table.Parse(name)
		fatal.If(t, err)
		list = append(list, spec)
	}
	return list
}

// All policies have different fingerprints, and so do all values of their options. An option stands
// for a constant that an edit changes. No trial fails.
func TestFingerprintsDiffer(t *testing.T) {
	table, named := all.Table(), map[string]string{}
	list := shippedSpecs(t)
	for _, name := range []string{
		"2q:kin=0.3", "2q:kout=0.6", "adakv:alpha=0.3", "adakv:kernel=5", "adakv:pooling=avg", "block-lfu:admit=0", "block-lfu:admit=3", "duoattention:full=0.3", "duoattention:recent=200",
		"duoattention:sink=10", "duoattention:stream=0.7", "h2o:recent=0.6", "h2o:scores=ranks", "lfu-decay:half_life=15", "lfu-decay:half_life=17", "lirs:hir=0.05", "lrfu:gamma=0.94", "lrfu:gamma=0.9", "lrfu:gamma=0.95,history=forget",
		"near-lrfu:gamma=0.96", "near-lrfu:w=3", "near-lrfu:history=forget", "pyramidkv:beta=10", "pyramidkv:kernel=5", "s3-fifo:small=0.2", "score-ewma:decay=0.79", "snapkv:kernel=5", "snapkv:pooling=avg", "snapkv:window=4",
		"streamingllm:sink=3", "streamingllm:sink=5", "window:1", "window:3", "window:4", "window:5", "window:8", "window:16", "window:17",
	} {
		spec, err := table.Parse(name)
		if err != nil {
			t.Error(err)
			continue
		}
		list = append(list, spec)
	}
	for _, spec := range list {
		f := fingerprinter{spec: spec, sum: sha256.New()}
		text := f.run()
		if f.errors > 0 {
			t.Errorf("%s: %d trials fail", spec.Name(), f.errors)
		}
		if other, taken := named[text]; taken {
			t.Errorf("%s has the fingerprint of %s", spec.Name(), other)
		}
		named[text] = spec.Name()
	}
}

// A fingerprint is the same on every processor and in every run, because rows state it. These come
// from amd64. They change only with fingerprintVersion or with the policy. `make portable` compares
// them with fused multiply-add, which arm64 uses.
func TestFingerprintsStay(t *testing.T) {
	for name, want := range map[string]string{
		"lru":            "e42e3671808a2639",
		"opt":            "747adcc31623de6d",
		"lookahead":      "e8cb258df54563ad",
		"random":         "16400bb804f4cd88",
		"lfu-decay":      "5295a6e0228e02ba",
		"near-lrfu":      "643e40b543ebff48",
		"score-ewma":     "9cf9d2e94893f1db",
		"block-lfu":      "fc6582f34f3c6d25",
		"h2o":            "83e643f22a4cad1a",
		"adakv":          "13b3c6fc58e83c49",
		"duoattention":   "98e74797a69879d5",
		"window:2":       "c3a9f15c5d9a22ee",
		"snapkv":         "58e4090fef24ef24",
		"s3-fifo":        "b2cc30f7867afc84",
		"lrfu:gamma=0.9": "682fb38c2537d1d8",
	} {
		if got := Fingerprint(specs(t, name)[0]); got != want {
			t.Errorf("%s: %s, expected %s", name, got, want)
		}
	}
}

// A policy that breaks its contract on the fixed streams also has a fingerprint. Only the replay of
// a trace reports the fault.
func TestFingerprintOfBrokenPolicies(t *testing.T) {
	seen := map[string]string{Fingerprint(asMine(t, lru.Entry)): "lru"}
	for name, broken := range map[string]func() policies.Policy{
		"panics":  func() policies.Policy { return &faulty{evict: func(int) []int32 { panic("no") }} },
		"refuses": func() policies.Policy { return &faulty{reset: errors.New("not here")} },
		"is lazy": func() policies.Policy { return &faulty{evict: func(int) []int32 { return nil }} },
	} {
		f := Fingerprint(asMine(t, policies.Entry{New: policies.NoOptions(broken)}))
		if other, taken := seen[f]; taken || len(f) != 2*fingerprintBytes {
			t.Errorf("a policy that %s has fingerprint %q, as %s", name, f, other)
		}
		seen[f] = name
	}
}

// An error ends the trials of a policy with a version, which may be a program that hangs.
func TestFingerprintEndsAtAnError(t *testing.T) {
	asked := 0
	New := func() policies.Policy {
		return &struct {
			faulty
			version
		}{faulty: faulty{evict: func(int) []int32 { asked++; return nil }}}
	}
	if Fingerprint(asMine(t, policies.Entry{New: policies.NoOptions(New)})); asked != 1 {
		t.Errorf("the policy was asked %d times, expected 1", asked)
	}
}

type version struct{}

func (version) Version() string { return "1" }

// faulty is LRU with a fault.
type faulty struct {
	lru.Policy
	reset error
	evict func(n int) []int32
}

func (p *faulty) Reset(sc *policies.Scope) error { return cmp.Or(p.reset, p.Policy.Reset(sc)) }

func (p *faulty) Evict(n int, dst []int32) []int32 {
	if n == 0 {
		return p.Policy.Evict(n, dst)
	}
	return append(dst, p.evict(n)...)
}

// BenchmarkFingerprint measures a fingerprint, which a run computes once for each policy.
func BenchmarkFingerprint(b *testing.B) {
	trials()
	heads()
	for _, spec := range shippedSpecs(b) {
		b.Run(spec.Name(), func(b *testing.B) {
			for b.Loop() {
				f := fingerprinter{spec: spec, sum: sha256.New()}
				f.run()
			}
		})
	}
}
