package replay

import (
	"crypto/sha256"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
)

// shippedSpecs are all policies of the table, with the options that entries show.
func shippedSpecs(t testing.TB) (list []policies.Spec) {
	t.Helper()
	table := all.Table()
	for _, e := range table {
		_, options, err := e.New(e.Example)
		if err != nil {
			t.Fatal(err)
		}
		name := e.Name
		if options != "" {
			name += ":" + options
		}
		spec, err := table.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, spec)
	}
	return list
}

// Every policy has a fingerprint of its own, and so has every value of its options: an
// option stands for a constant that an edit changes. No trial fails.
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
