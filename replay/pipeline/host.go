package pipeline

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// attendOnHost prices the attention of a layer on the CPU, and the moves of queries and outputs.
func (r *runner) attendOnHost(load *operator.Load, l *schedule.Layer, traffic *Traffic) {
	m := r.Model
	attended, bytes := load.Attended, load.Bytes
	switch r.host.Attends {
	case schedule.AttendsAll:
		attended, bytes = load.Scored, load.Context*float64(m.Entry.Value)
	case schedule.AttendsMissed:
		attended, bytes = l.Missed*attended, l.Missed*bytes
	}
	l.Host.Attend = operator.HostAttention(r.Machine, m, attended, bytes)
	if bytes == 0 {
		return
	}
	query, output := hostNumbers(m)
	one := func(path transfer.Path, numbers float64) (seconds, bytes float64) {
		all := int64(load.Queries * numbers * hardware.HalfBytes)
		cost := path.Cost(transfer.Request{Descriptors: 1, Bytes: all, Launches: 1})
		return cost.Seconds, float64(cost.Bytes)
	}
	var sent, returned float64
	l.Host.Send, sent = one(r.store, query)
	l.Host.Return, returned = one(r.fetch, output)
	traffic.D2H += sent
	traffic.H2D += returned
	traffic.Descriptors++
}

// hostNumbers returns the numbers of a token's queries, and of its attention's output. In latent
// attention both are absorbed: they are in the space of the latent entries.
func hostNumbers(m *hardware.Model) (query, output float64) {
	heads := float64(m.QueryHeads.Value)
	if l := m.Latent; l != nil {
		return heads * float64(l.KVRank.Value+l.Rope.Value), heads * float64(l.KVRank.Value)
	}
	return heads * float64(m.HeadDim.Value), heads * float64(m.HeadDim.Value)
}

// noteHost notes the basis of attention on the CPU.
func (r *runner) noteHost() {
	host, which := r.Machine.Host, map[schedule.AttendedOnHost]string{schedule.AttendsAll: "the whole context",
		schedule.AttendsDemand: "all of the Top-K", schedule.AttendsMissed: "the misses, which move to the GPU's cache later"}
	note := fmt.Sprintf("the CPU attends to %s, at 1/%d of %s", which[r.host.Attends], r.Machine.GPUs,
		host.StreamBandwidth.Value)
	if host.FP32.Known() {
		r.note("%s and of %g × %s", note, operator.AssumedMatrix, host.FP32.Value)
		return
	}
	r.note("%s. Host %s states no fp32, so arithmetic is not counted", note, host.Name)
}
