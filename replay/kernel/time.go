package kernel

import "math"

// tiles are the sizes of output tiles that libraries have kernels for: columns × tokens. splits are
// the numbers of parts that they divide long sums into. The model takes the fastest combination, as
// the heuristics of the libraries try to.
var (
	tiles  = [...][2]float64{{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {64, 32}, {32, 32}}
	splits = [...]float64{1, 2, 4, 8}
)

// fullSM is the arithmetic of an SM of A100 in FLOP/s. A slower SM waits less for the operands of a
// small tile. A faster one, of Hopper, reads one operand from shared memory, so it waits no longer.
const fullSM = 2.5e12

// shortest is the shortest sum of a split product. A tile loads stepBytes of each row of weights
// at once.
const (
	shortest  = 256
	stepBytes = 128
)

// largest is the size of the largest tile.
const largest = 256 * 128

// Seconds returns the time of a kernel on a device.
func (p *Parameters) Seconds(d *Device, k *Kernel) float64 {
	if k.Tokens <= 0 {
		return 0
	}
	switch k.Kind {
	case Product:
		return p.product(d, k)
	case Sample:
		return p[sampleLaunch] + p.moved(d, k.Tokens*k.Bytes*p[samplePasses], k.Tokens*k.Bytes)
	case Decode:
		return p.decode(d, k)
	case Prefill:
		return p.prefill(d, k)
	case Mixed:
		return p.mixed(d, k)
	case Experts:
		return p.experts(d, k)
	case Index:
		return p.index(d, k)
	case Sparse:
		return p.sparse(d, k)
	}
	return p.row(d, k)
}

// product returns the time of the fastest tile and split.
func (p *Parameters) product(d *Device, k *Kernel) float64 {
	m, n, long := k.Out, k.Tokens, k.In
	peak, memory := d.peak(k), d.Bandwidth*p[matrixMemory]
	if d.SlowECC {
		memory = d.Bandwidth * p[matrixMemoryECC]
	}
	bytes := m*long*k.Bytes + (n*long+n*m)*half
	needed := p[matrixTile] * min(1, d.Matrix/d.SMs/fullSM)
	latency := p[matrixLatency] / d.Clock
	var ways [len(tiles) * len(splits)]way
	count, first := 0, 0
	for _, tile := range tiles {
		a, b := tile[0], tile[1]
		covered := math.Ceil(m/a) * math.Ceil(n/b)
		depth := a * b / (a + b)
		// a tile of one SM computes 2·a·b FLOP for each element of the sum
		each := 2 * a * b * (depth + needed) / (depth * p[matrixShare] * peak / d.SMs)
		for _, split := range splits {
			if split > 1 && long/split < shortest {
				break
			}
			waves := covered * split / d.SMs
			occupied := min(1, waves/p[matrixTilesPerSM])
			if waves < 1 {
				waves = 1
			} else {
				// small tiles share an SM, so idle SMs cost them less
				waves += math.Sqrt(a*b/largest) * (math.Ceil(waves) - waves)
			}
			moved := bytes
			if split > 1 {
				moved += 2 * 4 * split * m * n * p[matrixSplit]
			}
			steps := math.Ceil(long / split * k.Bytes / stepBytes)
			ways[count] = way{waves * each * (long/split + p[matrixFill]), waves * steps * latency, moved / (memory * occupied)}
			if ways[count].longest() < ways[first].longest() {
				first = count
			}
			count++
		}
	}
	return p[matrixLaunch] + fastest(p[matrixSharpness], ways[:count], first)
}

// way has the times of arithmetic, of waits for loads, and of memory, for a tile and a split.
type way [3]float64

func (w *way) longest() float64 { return max(w[0], w[1], w[2]) }

// fastest returns the least smooth maximum of the ways. The search begins with the way first and
// takes few powers of fractions. A norm falls as its exponent grows, so a way is slower than best
// if its norm with the next whole exponent is.
func fastest(sharpness float64, ways []way, first int) float64 {
	whole := int(math.Ceil(sharpness))
	best := smooth(sharpness, ways[first][:]...)
	for i := range ways {
		w := &ways[i]
		if i == first || w.longest() >= best ||
			power(w[0]/best, whole)+power(w[1]/best, whole)+power(w[2]/best, whole) > 1+1e-9 {
			continue
		}
		best = min(best, smooth(sharpness, w[:]...))
	}
	return best
}

// power returns xⁿ, with roundings that add up to about n times that of one product.
func power(x float64, n int) float64 {
	product := 1.
	for range n {
		product *= x
	}
	return product
}

// blockThreads is the number of threads of a row's block, ropeThreads of the rotary embedding.
// serialRows is the number of rows up to which PyTorch looks rows up one after the other.
const (
	blockThreads = 1024
	ropeThreads  = 512
	serialRows   = 16
)

// row returns the time of a kernel over rows: the smooth maximum of its memory, its instructions,
// and the loads that a row waits for one after the other.
func (p *Parameters) row(d *Device, k *Kernel) float64 {
	bytes := k.Tokens * k.Bytes
	memory := p.moved(d, bytes, bytes)
	vector, rate, loads := k.Software.Vector, 0., 0.
	switch k.Kind {
	case Norm:
		rate, loads = p[rowNorm]*vector, k.Passes*k.Out/blockThreads/vector
	case Activation:
		rate, loads = p[rowActivation]*vector, k.Passes*k.Out/blockThreads/vector
	case Rope:
		rate, loads = p[rowRope], k.Out/2/ropeThreads
	case Embedding:
		if k.Tokens <= serialRows {
			loads = k.Tokens
		} else {
			rate = p[rowEmbedding] * vector
		}
	}
	latency := math.Ceil(loads) * p[rowLatency] / d.Clock
	instructions := 0.
	if rate > 0 {
		instructions = k.Tokens * k.Out / (d.SMs * d.Clock * rate)
	}
	return p[rowLaunch] + smooth(p[rowSharpness], memory, instructions, latency)
}

// moved returns the time to move bytes of a working set of some size. The part that fits into the
// L2 cache moves at its rate.
func (p *Parameters) moved(d *Device, bytes, set float64) float64 {
	memory := d.Bandwidth * p[rowMemory]
	if d.SlowECC {
		memory = d.Bandwidth * p[rowMemoryECC]
	}
	near := max(memory, p[rowL2Rate]*d.SMs*d.Clock)
	hit := min(1, p[rowL2Part]*d.L2/set)
	return bytes * (hit/near + (1-hit)/memory)
}

// reached returns the memory's rate of which attention and experts reach a share. No Ampere GPU was
// measured with them. With ECC it is the datasheet's less the loss of products.
func (p *Parameters) reached(d *Device) float64 {
	if d.SlowECC {
		return d.Bandwidth * p[matrixMemoryECC] / p[matrixMemory]
	}
	return d.Bandwidth
}

// tokenTile is the number of cached tokens that attention reads at once, queryTile the number of
// queries of a block. A sequence of more than wholeTiles is read in parts, and a kernel adds them up.
const (
	tokenTile  = 64
	queryTile  = 64
	wholeTiles = 2
)

// decode returns the time of attention over whole tiles of the cached tokens and the new one.
func (p *Parameters) decode(d *Device, k *Kernel) float64 {
	tiles := math.Ceil((k.In + 1) / tokenTile)
	bytes := k.Tokens * tiles * tokenTile * k.Bytes
	sum := p[decodeLaunch] + bytes/(p.reached(d)*p[decodeMemory]) + p[decodeRamp]*bytes/(bytes+p[decodeHalf])
	if k.Tokens > 1 {
		sum += p[decodeBatch]
	}
	if tiles > wholeTiles {
		sum += p[decodeCombine]
	}
	return sum
}

// prefill returns the time of attention by blocks of one head and tile of queries. Each goes over
// all cached tokens alone. An SM has one block at a time, so waves are whole.
func (p *Parameters) prefill(d *Device, k *Kernel) float64 {
	waves := math.Ceil(k.Heads * math.Ceil(k.Tokens/queryTile) / d.SMs)
	seen := k.In + (k.Tokens+min(k.Tokens, queryTile))/2
	block := 4 * queryTile * k.HeadDim * seen / (d.Matrix / d.SMs * p[prefillShare])
	read := (k.In + k.Tokens) * k.Bytes / d.Bandwidth
	return p[prefillLaunch] + max(waves*block, read) + p[prefillWave]*(waves-1)
}

// mixedShare is the part that Mixed reaches of the arithmetic of prompts. It makes the median error of the
// formula zero on RTX 4090 and RTX PRO 6000. A test of package pipeline has their measurements.
const mixedShare = 0.87

// mixedTile returns the number of cached tokens that a block of Mixed reads at once. Source:
// run_mha_fwd_splitkv_dispatch of https://github.com/Dao-AILab/flash-attention.
func mixedTile(headDim float64) float64 {
	switch {
	case headDim <= 64:
		return 256
	case headDim <= 128:
		return 128
	}
	return 64
}

// mixed returns the time of sequences that decode next to prompts, without the launch of the common kernel.
// Each head of a sequence is a block of queryTile queries, of which one counts. The blocks of a head in all
// sequences come before those of the next head. Heads with common keys read them once if they run at once, or
// if the L2 cache holds the keys of all sequences.
func (p *Parameters) mixed(d *Device, k *Kernel) float64 {
	waves := math.Ceil(k.Tokens * k.Heads / d.SMs)
	tile := mixedTile(k.HeadDim)
	tiles := math.Ceil((k.In + 1) / tile)
	block := 4 * queryTile * tile * k.HeadDim / (d.Matrix / d.SMs * p[prefillShare] * mixedShare)
	bytes, reads := k.Tokens*(k.In+1)*k.Bytes, 1.
	if bytes*k.Group/k.Heads > d.L2 {
		reads = max(1, k.Group/max(1, d.SMs/k.Tokens))
	}
	return max(waves*tiles*block, reads*bytes/(p.reached(d)*p[decodeMemory]))
}

// index returns the time of scores of the whole cache and of their Top-K. The Top-K goes over the rows of
// scores one after the other, and takes longer over longer ones. Rows with fewer tokens have none.
func (p *Parameters) index(d *Device, k *Kernel) float64 {
	scored := k.Tokens * k.In
	sum := p[indexLaunch] + max(scored*k.Bytes/(p.reached(d)*p[indexMemory]), 2*scored*k.Heads*k.HeadDim/d.MatrixLow)
	if k.In >= k.TopK {
		sum += (p[indexFirst] + p[indexRow]*k.Tokens) * k.In / (k.In + p[indexHalf])
	}
	return sum
}

// sparse returns the time of decode attention to selected entries. It has the form of decode, with the
// arithmetic in place of the bytes, because a latent entry is attended to by all heads.
func (p *Parameters) sparse(d *Device, k *Kernel) float64 {
	flop := 4 * k.Tokens * k.In * k.Heads * k.HeadDim
	busy := max(flop/(p[sparseShare]*d.Matrix), k.Tokens*k.In*k.Bytes/p.reached(d))
	return p[sparseLaunch] + busy + p[sparseRamp]*flop/(flop+p[sparseHalf])
}

// expertRows is the number of rows of weights whose loads are under way at once on an SM: the columns of
// a tile in most of vLLM's configurations of experts.
const expertRows = 128

// experts returns the time of a layer's routed experts. Loads of an expert's weights hide little of its
// arithmetic, which the sharpness says. Kernels with FP4 operands, which are those of CUTLASS and TensorRT-LLM, do not
// wait for loads. They hide none of the arithmetic. Activation and sum move rows.
func (p *Parameters) experts(d *Device, k *Kernel) float64 {
	weights := k.In * k.Out * k.Bytes / (p.reached(d) * p[expertsMemory])
	arithmetic := 2 * k.Pairs * k.Out / (d.peak(k) * p[expertsShare])
	busy := weights + arithmetic
	if !k.FP4 {
		waits := k.In * k.Out * k.Bytes / (expertRows * stepBytes * d.SMs) * p[matrixLatency] / d.Clock
		busy = smooth(p[expertsSharpness], weights, arithmetic, waits)
	}
	moved := half * (k.Pairs*(3*k.Width+k.Hidden) + k.Tokens*k.Hidden)
	return p[expertsLaunch] + busy + p.moved(d, moved, moved)
}

// smooth returns the smooth maximum of times.
func smooth(sharpness float64, times ...float64) float64 {
	most := 0.
	for _, t := range times {
		most = max(most, t)
	}
	if most == 0 {
		return 0
	}
	sum := 0.
	for _, t := range times {
		if t > 0 {
			sum += math.Pow(t/most, sharpness)
		}
	}
	return most * math.Pow(sum, 1/sharpness)
}
