package blind

import (
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// covered is the share of published results that lie in their intervals by the factor of a kind.
const covered = 0.9

// needs holds the least factors of the whole step by which results lie in their intervals, by source.
type needs map[string][]float64

// source returns the publication of a section. Sections of one publication begin alike.
func source(section string) string {
	name, _, _ := strings.Cut(section, "-")
	return name
}

// factors returns the needs of the results of each kind. Results whose kernels were measured on the
// same GPU with the same software do not count.
func (b *bench) factors() map[pipeline.StepKind]needs {
	all := map[pipeline.StepKind]needs{}
	for _, g := range groups {
		if all[g.kind] == nil {
			all[g.kind] = needs{}
		}
		for _, name := range g.sections {
			for _, p := range b.of[name] {
				if r := p.by[fitted]; name != transferred && p.row.Text("measure") != "room" && r.Fits() {
					all[g.kind][source(name)] = append(all[g.kind][source(name)], need(p.row, b.Model(p.row.Text("model")), r))
				}
			}
		}
	}
	return all
}

// without returns the factor by which nine of ten results of the other sources lie in their intervals.
func (n needs) without(left string) float64 {
	var list []float64
	for source, factors := range n {
		if source != left {
			list = append(list, factors...)
		}
	}
	if len(list) == 0 {
		return 1
	}
	slices.Sort(list)
	return list[int(math.Ceil(covered*float64(len(list))))-1]
}

// transferred is the section whose kernels were measured on the same GPU with the same software.
const transferred = "rtx4090"

// most is the largest factor that need returns.
const most = 16

// need returns the least factor of the whole step, to 1 %, by which a published result lies in the
// interval of ours.
func need(row reproduce.Row, m *hardware.Model, r *pipeline.Result) float64 {
	printed := row.Number("printed")
	for factor := 1.0; factor < most; factor += 0.01 {
		if v := interval(row, m, r, factor); v[0] <= printed && printed <= v[1] {
			return factor
		}
	}
	return most
}
