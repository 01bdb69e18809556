package pipeline

// Load is what the operators of one layer and step work on, summed over the requests of a
// batch or of a part of it.
type Load struct {
	Requests float64
	Queries  float64 // query tokens: positions decoded
	Context  float64 // cached tokens
	Scored   float64 // cached tokens × query tokens that score them
	Demand   float64 // blocks demanded, of all heads
	Attended float64 // tokens attended × query tokens that attend to them
	Bytes    float64 // read by attention, of all heads: the demand and what is pinned
	Missed   float64 // of them
	Again    float64 // tokens that the layer is run again over
	Pairs    float64 // of them, those before each, itself included
}

// Operators are the seconds that a layer's operators take.
type Operators struct {
	Project, Select, Pre, Attend, Post float64
	LookupGPU, LookupCPU, Update       float64
	AttendAll                          float64 // attention over the whole context
	Recompute                          float64 // K and V of one position of all requests
	Again                              float64 // the layer over Load.Again tokens
}

// Computer gives the times of operators.
type Computer interface {
	// Layer is one layer of a model, from 0.
	Layer(layer int, l *Load) (Operators, error)
	// Output is the projection to the vocabulary, seconds.
	Output(queries float64) (float64, error)
	// Notes say what was assumed.
	Notes() []string
}
