package schedule

import "strings"

// Resource executes one operation at a time.
type Resource uint8

// The resources of one GPU and its share of the host.
const (
	SMs Resource = iota // the GPU's multiprocessors
	H2D                 // link towards the GPU
	D2H                 // link from the GPU
	CPU
	SSD
	Peers     // links from the GPU to other GPUs
	Resources // number of resources
)

var resourceNames = [Resources]string{"SMs", "H2D", "D2H", "CPU", "SSD", "peers"}

func (r Resource) String() string { return resourceNames[r] }

// Cause is a reason for time spent.
type Cause uint8

// The causes, in the order of reports.
const (
	Compute       Cause = iota // projections, attention, feed-forward, recomputation
	Selecting                  // indexer, scores, Top-K
	Lookup                     // search for the resident part of the demand, and bookkeeping
	Fetch                      // host memory to GPU
	WriteBack                  // GPU to host memory
	Drive                      // SSD to host memory
	Weights                    // weights over the link
	Communication              // between GPUs that share a batch
	Dispatching                // tokens to the GPUs of their experts
	Combining                  // results of the experts back
	OnHost                     // attention on the CPU, with the way of queries and outputs
	Staging                    // sends between stages of a pipeline, and the wait for the slowest
	Causes
)

// CauseNames are the causes as reports call them.
var CauseNames = [Causes]string{"compute", "selection", "lookup", "fetch", "write-back", "ssd", "weights", "all-reduce", "dispatch", "combine", "cpu-attention", "pipeline"}

func (c Cause) String() string { return CauseNames[c] }

// Key returns the name as a key of JSON and CSV.
func (c Cause) Key() string { return strings.ReplaceAll(c.String(), "-", "_") }

// Kind is the kind of an operation. It determines resource and cause.
type Kind uint8

// The kinds.
const (
	Project         Kind = iota // projections that selection needs
	Select                      // indexer or scores, Top-K
	LookupGPU                   // lookup by a kernel
	LookupCPU                   // lookup by the host
	Update                      // the host's bookkeeping of fetched and evicted blocks
	Pre                         // projections that selection does not need
	Attend                      // attention
	AttendResident              // attention on resident entries
	AttendFetched               // attention on fetched entries, and the merge
	Post                        // output projection, feed-forward
	Experts                     // routed experts, if they are on several GPUs and so not in Post
	Output                      // vocabulary
	Recompute                   // K and V from activations
	Quantize                    // KV, from FP16
	Dequantize                  // KV, to FP16
	Split                       // overhead of dividing a kernel
	AllReduce                   // sum over GPUs
	AllGather                   // logits of all GPUs
	Gather                      // SM time of a fetch kernel
	GatherWeights               // SM time of a kernel that loads weights
	Scatter                     // SM time of a write-back kernel
	FetchBlocks                 // missed blocks from host memory
	FetchAhead                  // predicted blocks
	FetchRead                   // blocks that the SSD has read
	FetchLayer                  // whole KV of a layer, or the part that is not recomputed
	LoadActivations             // inputs of a layer, for recomputing
	LoadWeights
	ReadSSD
	Store // write-back of generated entries
	Dispatch
	Combine
	SendQueries   // to the host
	AttendHost    // attention on the CPU
	ReturnOutputs // of attention on the CPU
	SendStates    // hidden states to the next stage of a pipeline
	WaitStage     // for the slowest stage
	Join          // no duration: marks the end of others
	kinds
)

var kindTable = [kinds]struct {
	name     string
	resource Resource
	cause    Cause
}{
	Project:         {"project", SMs, Compute},
	Select:          {"select", SMs, Selecting},
	LookupGPU:       {"lookup", SMs, Lookup},
	LookupCPU:       {"lookup", CPU, Lookup},
	Update:          {"update", CPU, Lookup},
	Pre:             {"pre-attention", SMs, Compute},
	Attend:          {"attention", SMs, Compute},
	AttendResident:  {"attention (resident)", SMs, Compute},
	AttendFetched:   {"attention (fetched)", SMs, Compute},
	Post:            {"output projection, FFN", SMs, Compute},
	Experts:         {"routed experts", SMs, Compute},
	Output:          {"vocabulary", SMs, Compute},
	Recompute:       {"recompute", SMs, Compute},
	Quantize:        {"quantize", SMs, Compute},
	Dequantize:      {"dequantize", SMs, Compute},
	Split:           {"split", SMs, Selecting},
	AllReduce:       {"all-reduce", SMs, Communication},
	AllGather:       {"all-gather", SMs, Communication},
	Gather:          {"gather kernel", SMs, Fetch},
	GatherWeights:   {"gather kernel (weights)", SMs, Weights},
	Scatter:         {"write-back kernel", SMs, WriteBack},
	FetchBlocks:     {"fetch", H2D, Fetch},
	FetchAhead:      {"fetch ahead", H2D, Fetch},
	FetchRead:       {"fetch (from SSD)", H2D, Fetch},
	FetchLayer:      {"fetch layer", H2D, Fetch},
	LoadActivations: {"load activations", H2D, Fetch},
	LoadWeights:     {"load weights", H2D, Weights},
	ReadSSD:         {"read", SSD, Drive},
	Store:           {"write back", D2H, WriteBack},
	Dispatch:        {"dispatch", Peers, Dispatching},
	Combine:         {"combine", Peers, Combining},
	SendQueries:     {"send queries", D2H, OnHost},
	AttendHost:      {"attention on the CPU", CPU, OnHost},
	ReturnOutputs:   {"return outputs", H2D, OnHost},
	SendStates:      {"send", Peers, Staging},
	WaitStage:       {"wait for stages", Peers, Staging},
	Join:            {"join", SMs, Compute},
}

func (k Kind) String() string { return kindTable[k].name }

// Resource returns the resource that an operation of this kind occupies.
func (k Kind) Resource() Resource { return kindTable[k].resource }

// Cause returns the cause of its time.
func (k Kind) Cause() Cause { return kindTable[k].cause }
