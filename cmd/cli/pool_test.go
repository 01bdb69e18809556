package cli_test

import (
	"strings"
	"testing"
)

// Pools and budgets that change: what a user may get wrong says what to do.
func TestPoolFlags(t *testing.T) {
	good := smallTrace(t, small)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--pool reqest", 2, "did you mean request"},
		{"--pool layer", 1, "only stream of its layer"},
		{"--pool request --prefetch candidates:4 --topk 8 --policy lru", 1, "do not combine"},
		{"--reallocate 8", 2, "--allocation"},
		{"--reallocate x --allocation plan.yaml", 2, "every N decode steps"},
		{"--warmup importance:4,scope=layer", 2, "scope=request"},
		{"--warmup lru:4,scope=request", 2, "importance:W[,scope=request]"},
		{"--pool request --policy lru --capacity 2x --warmup importance:4,scope=request --referee", 0, ""},
	} {
		code, _, stderr := run(append([]string{"replay", good}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, expected %d with %q:\n%s", c.args, code, c.code, c.want, stderr)
		}
	}
}
