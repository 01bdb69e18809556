package cli

import (
	"runtime/debug"
	"testing"
)

// The version is that of kvreplay, even in a program of another module with its own version and
// commit.
func TestVersionOfModule(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}}
	other := debug.Module{Path: "example.com/mine", Version: "v9.9.9"}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		want [3]string
	}{
		"itself":     {debug.BuildInfo{Main: debug.Module{Path: moduleOf, Version: "v0.1.0"}, Settings: vcs}, [3]string{"v0.1.0", "c0ffee", "2026-01-02T03:04:05Z"}},
		"dependency": {debug.BuildInfo{Main: other, Deps: []*debug.Module{{Path: "x"}, {Path: moduleOf, Version: "v0.2.0"}}, Settings: vcs}, [3]string{"v0.2.0", "", ""}},
		"clone":      {debug.BuildInfo{Main: other, Deps: []*debug.Module{{Path: moduleOf, Version: "v0.0.0", Replace: &debug.Module{Path: "../kvreplay"}}}, Settings: vcs}, [3]string{"(devel)", "", ""}},
		"no module":  {debug.BuildInfo{Main: other, Settings: vcs}, [3]string{}},
	} {
		v, commit, at := buildOf(&c.info)
		if got := [3]string{v, commit, at}; got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
