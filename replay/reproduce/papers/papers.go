// Package papers lists everything that can be reproduced.
package papers

import (
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

// Names returns their names.
func Names() (names []string) {
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}
