// Package papers lists everything that can be reproduced.
package papers

import (
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/reproduce/ellm"
	"github.com/kvreplay/kvreplay/replay/reproduce/ess"
	"github.com/kvreplay/kvreplay/replay/reproduce/kvdrive"
	"github.com/kvreplay/kvreplay/replay/reproduce/kvpr"
	"github.com/kvreplay/kvreplay/replay/reproduce/links"
)

// All returns the papers and the measured links, in the order of reports.
func All() []reproduce.Paper {
	return []reproduce.Paper{
		ess.Paper(),
		kvpr.Paper(),
		kvdrive.Paper(),
		ellm.Paper(),
		links.Paper(),
	}
}

// Names are their names.
func Names() []string {
	return slice.Map(All(), func(p reproduce.Paper) string { return p.Name })
}
