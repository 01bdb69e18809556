package operator

import "github.com/kvreplay/kvreplay/replay/hardware"

// HostAttention returns the time of attention on the CPU for one GPU of a machine. attended is tokens ×
// queries, bytes are those of the entries that it reads. It is the longer of the arithmetic and of the
// bytes at the rates of the host, which its GPUs share evenly. Without a rate of the host's arithmetic only
// the bytes count.
func HostAttention(machine *hardware.Machine, m *hardware.Model, attended, bytes float64) float64 {
	host, gpus := machine.Host, float64(machine.GPUs)
	seconds := gpus * bytes / float64(host.StreamBandwidth.Value)
	if host.FP32.Known() {
		rate := AssumedMatrix * float64(host.FP32.Value)
		seconds = max(seconds, gpus*attentionFLOP(m, attended)/rate)
	}
	return seconds
}
