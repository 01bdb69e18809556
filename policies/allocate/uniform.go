package allocate

// uniform gives every layer and head the same: a capacity of memory ÷ streams, or the
// largest window whose cost, summed over all, fits (KVDrive, section 5.1).
var uniform = Method{
	Name:    "uniform",
	Summary: "every layer and head the same",
	Source:  "KVDrive, section 5.1: the largest window that fits",
	Usage:   "uniform",
	New:     plain(solveUniform),
}

func solveUniform(p *Problem, memory int64) *Result {
	if p.Family == Windows {
		size := p.Curves[0].Points[0].Size
		for _, pt := range merge(p.Curves).Points {
			if pt.Cost <= memory {
				size = pt.Size
			}
		}
		return &Result{Sizes: equal(size, len(p.Curves))}
	}
	return fitAll(p, func(int) int64 { return memory / int64(len(p.Curves)) })
}

func equal(size, n int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

// fitAll gives each curve what fits its share of the memory.
func fitAll(p *Problem, share func(curve int) int64) *Result {
	sizes := make([]int, len(p.Curves))
	for i := range p.Curves {
		sizes[i] = p.Curves[i].fit(p, share(i))
	}
	return &Result{Sizes: sizes}
}
