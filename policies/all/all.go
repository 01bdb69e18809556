// Package all is the table of the policies that kvreplay ships, its own and submitted ones. A new
// policy is one package and one line here.
package all

import (
	"slices"
	"sync"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/adakv"
	"github.com/kvreplay/kvreplay/policies/arc"
	"github.com/kvreplay/kvreplay/policies/blocklfu"
	"github.com/kvreplay/kvreplay/policies/clock"
	"github.com/kvreplay/kvreplay/policies/duoattention"
	"github.com/kvreplay/kvreplay/policies/echo"
	"github.com/kvreplay/kvreplay/policies/fifo"
	"github.com/kvreplay/kvreplay/policies/h2o"
	"github.com/kvreplay/kvreplay/policies/lfu"
	"github.com/kvreplay/kvreplay/policies/lfudecay"
	"github.com/kvreplay/kvreplay/policies/lirs"
	"github.com/kvreplay/kvreplay/policies/lookahead"
	"github.com/kvreplay/kvreplay/policies/lrfu"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/nearlrfu"
	"github.com/kvreplay/kvreplay/policies/none"
	"github.com/kvreplay/kvreplay/policies/opt"
	"github.com/kvreplay/kvreplay/policies/optbypass"
	"github.com/kvreplay/kvreplay/policies/pyramidkv"
	"github.com/kvreplay/kvreplay/policies/random"
	"github.com/kvreplay/kvreplay/policies/s3fifo"
	"github.com/kvreplay/kvreplay/policies/scoreewma"
	"github.com/kvreplay/kvreplay/policies/sieve"
	"github.com/kvreplay/kvreplay/policies/snapkv"
	"github.com/kvreplay/kvreplay/policies/static"
	"github.com/kvreplay/kvreplay/policies/streamingllm"
	"github.com/kvreplay/kvreplay/policies/submissions/lru2"
	"github.com/kvreplay/kvreplay/policies/twoq"
	"github.com/kvreplay/kvreplay/policies/window"
)

// Table returns the table. All calls return the same entries, so the fingerprint of a policy is computed
// once in a process. The caller must not change them.
func Table() policies.Table { return table() }

var table = sync.OnceValue(func() policies.Table {
	return slices.Clip(policies.NewTable(
		adakv.Entry,
		arc.Entry,
		blocklfu.Entry,
		clock.Entry,
		duoattention.Entry,
		echo.Entry,
		fifo.Entry,
		h2o.Entry,
		lfu.Entry,
		lfudecay.Entry,
		lirs.Entry,
		lookahead.Entry,
		lrfu.Entry,
		lru.Entry,
		nearlrfu.Entry,
		none.Entry,
		opt.Entry,
		optbypass.Entry,
		pyramidkv.Entry,
		random.Entry,
		s3fifo.Entry,
		scoreewma.Entry,
		sieve.Entry,
		snapkv.Entry,
		static.Entry,
		streamingllm.Entry,
		twoq.Entry,
		window.Entry,
		policies.Submission(lru2.Entry),
	))
})
