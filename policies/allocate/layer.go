package allocate

// perLayer chooses like 2d-greedy, the heads of a layer all alike.
var perLayer = Method{
	Name:    "layer",
	Summary: "2d-greedy with the heads of a layer alike",
	Source:  "KVDrive, section 5.2, without its head dimension",
	Usage:   "layer",
	New:     plain(solveLayer),
}

func solveLayer(p *Problem, memory int64) *Result {
	runs := p.layers()
	merged := &Problem{Family: p.Family, Unit: p.Unit}
	for _, run := range runs {
		merged.Curves = append(merged.Curves, merge(p.Curves[run[0]:run[1]]))
	}
	var sizes []int
	for i, size := range solveGreedy(merged, memory).Sizes {
		sizes = append(sizes, equal(size, runs[i][1]-runs[i][0])...)
	}
	return &Result{Sizes: sizes}
}
