package allocate

// perHead gives every layer the same memory above its floors and divides it among the
// layer's heads like 2d-greedy. With one head a layer it is uniform.
var perHead = Method{
	Name:    "head",
	Summary: "2d-greedy within each layer, layers alike",
	Source:  "KVDrive, section 5.2, without its layer dimension",
	Usage:   "head",
	New:     plain(solveHead),
}

func solveHead(p *Problem, memory int64) *Result {
	if len(p.layers()) == len(p.Curves) {
		return solveUniform(p, memory)
	}
	var sizes []int
	rest := memory - p.Least()
	runs := p.layers()
	for _, run := range runs {
		layer := p.part(run)
		sizes = append(sizes, solveGreedy(layer, layer.Least()+rest/int64(len(runs))).Sizes...)
	}
	return &Result{Sizes: sizes}
}
