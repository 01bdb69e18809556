package kernel

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/csvrows"
)

// The parameters, as indices of Parameters.
const (
	matrixLaunch = iota
	matrixMemory
	matrixMemoryECC
	matrixShare
	matrixTile
	matrixFill
	matrixSharpness
	matrixTilesPerSM
	matrixSplit
	matrixLatency

	rowLaunch
	rowMemory
	rowMemoryECC
	rowLatency
	rowL2Rate
	rowL2Part
	rowSharpness
	rowNorm
	rowActivation
	rowRope
	rowEmbedding

	sampleLaunch
	samplePasses

	decodeLaunch
	decodeBatch
	decodeCombine
	decodeMemory
	decodeRamp
	decodeHalf

	prefillLaunch
	prefillShare
	prefillWave

	expertsLaunch
	expertsMemory
	expertsShare
	expertsSharpness

	indexLaunch
	indexMemory
	indexFirst
	indexRow
	indexHalf

	sparseLaunch
	sparseShare
	sparseRamp
	sparseHalf

	parameterCount
)

// Parameters are the constants of the model, in SI units.
type Parameters [parameterCount]float64

// group is a set of parameters that the same kernels determine.
type group int

const (
	products group = iota
	rows
	sampling
	decoding
	prefilling
	mixing
	indexing
	sparseDecoding
	groupCount
)

// groupNames name the groups in reports.
var groupNames = [groupCount]string{
	"products", "rows", "sampling", "decode attention", "prefill attention", "routed experts",
	"selection", "sparse attention",
}

// groupOf returns the group that prices a kind.
func groupOf(k Kind) group {
	switch k {
	case Product:
		return products
	case Sample:
		return sampling
	case Decode:
		return decoding
	case Prefill, Mixed:
		return prefilling
	case Experts:
		return mixing
	case Index:
		return indexing
	case Sparse:
		return sparseDecoding
	}
	return rows
}

// Definition describes a parameter.
type Definition struct {
	Name string
	Unit string  // of Value·Scale
	Text string  // a phrase for lists
	SI   float64 // one unit in SI
	// Start is where a fit starts, Least and Most are the bounds, in SI units.
	Start, Least, Most float64
	group              group
}

// Definitions describe the parameters, in the order of Parameters.
var Definitions = [parameterCount]Definition{
	matrixLaunch: {"matrix_launch", "us", "start and end of a matrix product",
		1e-6, 4e-6, 1e-7, 2e-5, products},
	matrixMemory: {"matrix_memory", "", "share of the memory's rate that products reach",
		1, 0.9, 0.4, 1.1, products},
	matrixMemoryECC: {"matrix_memory_ecc", "", "the same for Ampere with ECC", 1, 0.8, 0.4, 1.1, products},
	matrixShare: {"matrix_share", "", "share of the fastest product's rate that an infinite tile reaches",
		1, 1.15, 0.5, 1.6, products},
	matrixTile: {"matrix_tile", "elements", "a × b / (a + b) of the tile that reaches half of that on an SM of A100",
		1, 20, 1, 100, products},
	matrixFill: {"matrix_fill", "elements", "elements of a sum whose time a tile takes to begin and to end",
		1, 100, 1, 1000, products},
	matrixSharpness: {"matrix_sharpness", "", "exponent of the smooth maximum of memory and arithmetic",
		1, 3, 1, 10, products},
	matrixTilesPerSM: {"matrix_tiles", "", "tiles per SM that reach the memory's rate", 1, 1, 0.05, 4, products},
	matrixSplit: {"matrix_split", "", "share of split sums that goes through device memory",
		1, 0.7, 0.01, 4, products},
	matrixLatency: {"matrix_latency", "cycles", "wait of an SM for the next 128 bytes of a tile's rows",
		1, 500, 10, 4000, products},

	rowLaunch: {"row_launch", "us", "start and end of a kernel over rows", 1e-6, 1.8e-6, 1e-7, 1e-5, rows},
	rowMemory: {"row_memory", "", "share of the memory's rate that row kernels reach",
		1, 0.95, 0.4, 1.1, rows},
	rowMemoryECC: {"row_memory_ecc", "", "the same for Ampere with ECC", 1, 0.8, 0.4, 1.1, rows},
	rowLatency:   {"row_latency", "cycles", "one load of a block of 1024 threads", 1, 500, 10, 4000, rows},
	rowL2Rate:    {"row_l2_rate", "B/cycle", "rate of the L2 cache per SM", 1, 17, 2, 200, rows},
	rowL2Part:    {"row_l2_part", "", "share of the L2 cache that holds the rows", 1, 0.5, 0.05, 1.5, rows},
	rowSharpness: {"row_sharpness", "", "exponent of the smooth maximum of memory, instructions and latency",
		1, 2, 1, 10, rows},
	rowNorm: {"row_norm", "elements/cycle", "elements of a norm per SM, one element per thread",
		1, 1.4, 0.1, 20, rows},
	rowActivation: {"row_activation", "elements/cycle", "elements of an activation per SM, one element per thread",
		1, 1.3, 0.1, 20, rows},
	rowRope: {"row_rope", "elements/cycle", "elements of a rotary embedding per SM", 1, 1.8, 0.1, 20, rows},
	rowEmbedding: {"row_embedding", "elements/cycle", "elements of an embedding per SM, one element per thread",
		1, 0.6, 0.05, 20, rows},

	sampleLaunch: {"sample_launch", "us", "start and end of the sampler's kernels",
		1e-6, 25e-6, 1e-6, 2e-4, sampling},
	samplePasses: {"sample_passes", "", "times that the sampler reads or writes the logits", 1, 2, 0.3, 20, sampling},

	decodeLaunch: {"decode_launch", "us", "start and end of decode attention of one sequence",
		1e-6, 8e-6, 1e-6, 5e-5, decoding},
	decodeBatch: {"decode_batch", "us", "further time with several sequences", 1e-6, 4e-6, 1e-7, 3e-5, decoding},
	decodeCombine: {"decode_combine", "us", "further time with sequences of several tiles, whose parts are added up",
		1e-6, 3e-6, 1e-7, 3e-5, decoding},
	decodeMemory: {"decode_memory", "", "share of the memory's rate that decode attention reaches",
		1, 0.95, 0.4, 1.1, decoding},
	decodeRamp: {"decode_ramp", "us", "time lost until memory reaches its rate", 1e-6, 2e-5, 1e-7, 2e-4, decoding},
	decodeHalf: {"decode_half", "MB", "cache that loses half of it", 1e6, 3e7, 1e6, 3e8, decoding},

	prefillLaunch: {"prefill_launch", "us", "start and end of prefill attention", 1e-6, 9e-6, 1e-6, 5e-5, prefilling},
	prefillShare: {"prefill_share", "", "share of the fastest product's rate that prefill attention reaches",
		1, 0.8, 0.2, 1.1, prefilling},
	prefillWave: {"prefill_wave", "us", "time of each wave of tiles after the first",
		1e-6, 6e-6, 1e-8, 5e-5, prefilling},

	expertsLaunch: {"experts_launch", "us", "start and end of the kernels of routed experts",
		1e-6, 1.5e-5, 1e-6, 1e-4, mixing},
	expertsMemory: {"experts_memory", "", "share of the memory's rate at which weights of experts load",
		1, 0.9, 0.4, 1.1, mixing},
	expertsShare: {"experts_share", "", "share of the fastest product's rate that routed experts reach",
		1, 0.7, 0.1, 1.6, mixing},
	expertsSharpness: {"experts_sharpness", "", "exponent of the smooth maximum of their memory and arithmetic",
		1, 1.5, 1, 10, mixing},

	indexLaunch: {"index_launch", "us", "start and end of the indexer's kernels", 1e-6, 8e-6, 1e-6, 1e-4, indexing},
	indexMemory: {"index_memory", "", "share of the memory's rate at which the indexer reads its keys",
		1, 0.85, 0.4, 1.1, indexing},
	indexFirst: {"index_first", "us", "Top-K of long rows of scores, without the time of each row",
		1e-6, 1e-5, 1e-7, 1e-4, indexing},
	indexRow:  {"index_row", "us", "Top-K of one long row of scores", 1e-6, 1e-6, 1e-8, 1e-4, indexing},
	indexHalf: {"index_half", "tokens", "row of scores whose Top-K takes half of that", 1, 4000, 100, 1e5, indexing},

	sparseLaunch: {"sparse_launch", "us", "start and end of attention to selected latent entries",
		1e-6, 4e-5, 1e-6, 2e-4, sparseDecoding},
	sparseShare: {"sparse_share", "", "share of the fastest product's rate that it approaches",
		1, 0.9, 0.1, 1, sparseDecoding},
	sparseRamp: {"sparse_ramp", "us", "time lost until it reaches that rate", 1e-6, 6e-4, 1e-6, 5e-3, sparseDecoding},
	sparseHalf: {"sparse_half", "GFLOP", "arithmetic that loses half of it", 1e9, 4e10, 1e8, 1e12, sparseDecoding},
}

// shared is the device name of the parameters that all measurements determine together.
const shared = "shared"

var parameterHeader = []string{"device", "parameter", "value", "unit"}

// readParameters reads the parameters of each device.
func readParameters(r io.Reader) (map[string]Parameters, error) {
	index := map[string]int{}
	for i := range Definitions {
		index[Definitions[i].Name] = i
	}
	all := map[string]Parameters{}
	_, err := csvrows.Read(r, "bundled:parameters.csv", parameterHeader, func(record []string, _ int) (value float64, err error) {
		i, ok := index[record[1]]
		if value, err = strconv.ParseFloat(record[2], 64); !ok || err != nil {
			return 0, fmt.Errorf("%s %s: expected a known parameter and a number", record[1], record[2])
		}
		p := all[record[0]]
		p[i] = value * Definitions[i].SI
		all[record[0]] = p
		return value, nil
	})
	return all, err
}

// Priced reports whether the parameter prices some of the points.
func (d *Definition) Priced(points []Point) bool {
	return slices.ContainsFunc(points, func(x Point) bool { return groupOf(x.Kernel.Kind) == d.group })
}
