package transfer

// Cost is what a request takes.
type Cost struct {
	Bytes       int64 // payload
	Descriptors int64
	Launches    int64
	// WireForward and WireBack are bytes on the link with packet headers: in the
	// direction of the payload, and against it (read requests). They equal Bytes and 0
	// on links whose packets are not modelled.
	WireForward float64
	WireBack    float64
	Seconds     float64 // from launch to last byte: the sum of By
	By          Causes
	// SMs are taken from compute for Seconds; 0 on copy engines.
	SMs float64
	// Load is the rate of the whole over what the link carries both ways; 0 where the
	// directions do not disturb each other. Opposite transfers whose loads sum to more than
	// 1 slow each other by the sum.
	Load float64
}

// Causes are seconds by cause. Each is what that cause adds; submission that hides
// behind the engine adds nothing.
type Causes struct {
	Launch     float64 // kernel launches, driver calls
	Submit     float64 // CPU time of descriptors, as far as the engine waits for it
	Descriptor float64 // engine or latency, by the piece
	Link       float64 // bytes at the path's rate
}

// Path moves data one way.
type Path interface {
	// Time is Cost(r).Seconds.
	Time(r Request) float64
	Cost(r Request) Cost
}
