// Package all is the table of the policies that kvreplay ships. A new policy is one
// package and one line here.
package all

import (
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/fifo"
	"github.com/kvreplay/kvreplay/policies/lfu"
	"github.com/kvreplay/kvreplay/policies/lookahead"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/none"
	"github.com/kvreplay/kvreplay/policies/opt"
	"github.com/kvreplay/kvreplay/policies/optbypass"
	"github.com/kvreplay/kvreplay/policies/window"
)

// Table returns the table.
func Table() policies.Table {
	return policies.NewTable(
		fifo.Entry,
		lfu.Entry,
		lookahead.Entry,
		lru.Entry,
		none.Entry,
		opt.Entry,
		optbypass.Entry,
		window.Entry,
	)
}
