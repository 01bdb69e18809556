package hardware

import "fmt"

// Drive is an NVMe drive.
type Drive struct {
	Header
	ReadBandwidth  Fact[BytesPerSecond] `yaml:"read_bandwidth"`            // sequential
	WriteBandwidth Fact[BytesPerSecond] `yaml:"write_bandwidth" need:"no"` // sequential
	ReadIOPS       Fact[PerSecond]      `yaml:"read_iops"`                 // random 4 KiB
	ReadLatency    Fact[Seconds]        `yaml:"read_latency"`              // of a lone read, less its bytes at RequestRate
	// RequestRate is what one request streams at, after its latency; absent: ReadBandwidth.
	RequestRate Fact[BytesPerSecond] `yaml:"request_rate" need:"no"`
	// Knee is how sharply throughput turns from growing with queue depth to the drive's
	// limits: 1 is a long bend, above 8 a corner.
	Knee   Fact[Number]  `yaml:"knee"`
	Series []DriveSeries `yaml:"measurements" need:"no"`
}

// DriveSeries are reads measured under the same conditions.
type DriveSeries struct {
	Name   string   `yaml:"name"`
	Source Citation `yaml:"source"`
	Note   string   `yaml:"note" need:"no"`
	// Fits says that the drive's constants are fitted to these points, Sets that one of
	// them is taken from a point.
	Sets   bool         `yaml:"sets" need:"no"`
	Fits   bool         `yaml:"fits" need:"no"`
	Points []DrivePoint `yaml:"points"`
}

// DrivePoint is the throughput of random reads of one size at one queue depth.
type DrivePoint struct {
	Block Measure[Bytes]          `yaml:"block"`
	Depth Measure[Number]         `yaml:"depth"` // requests in flight
	Rate  Measure[BytesPerSecond] `yaml:"rate" need:"no"`
	IOPS  Measure[PerSecond]      `yaml:"iops" need:"no"`
	Why   string                  `yaml:"why" need:"no"` // why the model misses it
}

// BytesPerSecond is the measured throughput.
func (p *DrivePoint) BytesPerSecond() float64 {
	if p.Rate.Known() {
		return float64(p.Rate.Value)
	}
	return float64(p.IOPS.Value) * float64(p.Block.Value)
}

func (d *Drive) check(f *faults) {
	if d.Knee.Value < 0.5 || d.Knee.Value > 64 {
		f.at("knee", "%s, expected 0.5 to 64", d.Knee.Written)
	}
	for i, s := range d.Series {
		for j, p := range s.Points {
			path := fmt.Sprintf("measurements[%d].points[%d]", i, j)
			if p.Rate.Known() == p.IOPS.Known() {
				f.at(path, "needs either rate or iops (%s)", s.Name)
			}
			if p.Depth.Value < 1 {
				f.at(path+".depth", "%s, expected at least 1 (%s)", p.Depth.Written, s.Name)
			}
		}
	}
}
