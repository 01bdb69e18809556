package policies

import "testing"

// A name without options, in any case, means the only policy with that name. If there are several,
// it means none.
func TestNamed(t *testing.T) {
	among := []string{"2q:kin=0.25", "lfu", "lfu-decay:half_life=4", "s3-fifo:small=0.1", "s3-fifo:small=0.1", "window:1", "window:2"}
	for name, want := range map[string]string{
		"lfu": "lfu", "s3-fifo": "s3-fifo:small=0.1", "2q": "2q:kin=0.25", "lfu-decay": "lfu-decay:half_life=4",
		"lfu-decay:half_life=4": "lfu-decay:half_life=4", "window": "window", "window:2": "window:2",
		"s3": "s3", "LFU": "lfu", "S3FIFO": "s3-fifo:small=0.1", "Window:2": "window:2", "LFU-Decay:half_life=4": "lfu-decay:half_life=4", "s3-fifo:small=0.2": "s3-fifo:small=0.2", "": "",
	} {
		if got := Named(name, among); got != want {
			t.Errorf("%q stands for %q, want %q", name, got, want)
		}
	}
}
