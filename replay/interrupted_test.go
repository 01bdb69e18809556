package replay

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// A run that is stopped says what is kept, and if nothing is, why.
func TestInterruptedSays(t *testing.T) {
	f := manyStreams(t)
	store, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for want, set := range map[string]func(*Options){
		"nothing of this trace is kept":                   func(*Options) {},
		"nothing of this trace is kept: a profile":        func(o *Options) { o.Store, o.Profile = store, newProfile(t) },
		"nothing of this trace is kept: with --referee":   func(o *Options) { o.Store, o.Referee = store, true },
		"nothing of this trace is kept: none of its part": func(o *Options) { o.Store = store },
	} {
		o := Options{Policies: specs(t, "lru"), Capacities: capacities(t, "2x")}
		set(&o)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_, err := Run(ctx, f, o)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "after 0 of ") {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	kept := &Interrupted{Trace: "t", Done: 2, Streams: 3, Kept: true}
	if want := "interrupted in t after 2 of 3 streams; what is counted is kept, run the same command again to go on"; kept.Error() != want {
		t.Errorf("%v", kept)
	}
}

func newProfile(t *testing.T) *Profile {
	t.Helper()
	p, err := CreateProfile(filepath.Join(t.TempDir(), "p.parquet"), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Abort)
	return p
}
