// Package papers lists everything that can be reproduced.
package papers

import (
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/reproduce/blind"
	"github.com/kvreplay/kvreplay/replay/reproduce/ellm"
	"github.com/kvreplay/kvreplay/replay/reproduce/ess"
	"github.com/kvreplay/kvreplay/replay/reproduce/kvdrive"
	"github.com/kvreplay/kvreplay/replay/reproduce/kvpr"
	"github.com/kvreplay/kvreplay/replay/reproduce/links"
	"github.com/kvreplay/kvreplay/replay/reproduce/trtllm"
)

// All returns the papers and the measured links of REPRODUCTION.md, in the order of reports.
func All() []reproduce.Paper {
	return []reproduce.Paper{
		ess.Paper(),
		kvpr.Paper(),
		kvdrive.Paper(),
		ellm.Paper(),
		links.Paper(),
	}
}

// Known returns those of All, and those with a page of their own.
func Known() []reproduce.Paper { return append(All(), blind.Paper(), trtllm.Paper()) }

// Names returns the names of papers.
func Names(papers []reproduce.Paper) []string {
	return slice.Map(papers, func(p reproduce.Paper) string { return p.Name })
}
