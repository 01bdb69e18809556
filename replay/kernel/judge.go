package kernel

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Split is a way to leave measurements out of a fit.
type Split string

// The splits.
const (
	LeaveDevice Split = "device" // no measurement of the device
	LeaveModel  Split = "model"  // no measurement of the model, on any device
	LeaveWidth  Split = "width"  // other widths of the same device, a fifth at a time
	LeaveShape  Split = "shape"  // other shapes of the same device, a fifth at a time
	LeaveFile   Split = "file"   // all of a file: the published measurements alone predict it
	// LeaveNothing are errors on the measurements that were fitted.
	LeaveNothing Split = "nothing"
)

// Errors summarise the errors of kernels that were left out: predicted ÷ measured − 1.
type Errors struct {
	Split    Split   `json:"split"`
	Left     string  `json:"left_out"` // the device or model. Widths and shapes are those of a device
	Operator string  `json:"operator"` // an operator, a group of operators, or layer
	Count    int     `json:"kernels"`
	Bias     float64 `json:"median_error"`
	Median   float64 `json:"median_abs_error"`
	P95      float64 `json:"p95_abs_error"`
	Worst    float64 `json:"worst_abs_error"`
	// Beyond and BeyondP95 count only the part of an error that the profiler's resolution cannot
	// explain: half a step of its clock either way.
	Beyond    float64 `json:"median_beyond_resolution"`
	BeyondP95 float64 `json:"p95_beyond_resolution"`
}

// guess is a prediction of a left-out kernel.
type guess struct {
	*Point
	predicted float64
}

// folds is the number of parts of a device's widths or shapes.
const folds = 5

// Judge fits without each part in turn and returns the errors on that part. No fit starts from
// constants that were fitted to the part. With each, operators have lines of their own. It stops
// between fits if ctx ends.
func Judge(ctx context.Context, points []Point, each bool) ([]Errors, error) {
	devices := slice.Distinct(points, func(p *Point) string { return p.Measurement.Device })
	models := slice.Distinct(points, func(p *Point) string { return p.Model })
	tasks := slices.Concat(
		tasksOf(devices, func(name string) []Errors { return judgeDevice(points, name, each) }),
		tasksOf(models, func(name string) []Errors { return judgeModel(points, name, each) }),
	)
	results := make([][]Errors, len(tasks))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, task := range tasks {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			results[i] = task()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(results...)
	order := []Split{LeaveDevice, LeaveModel, LeaveWidth, LeaveShape}
	slices.SortStableFunc(all, func(a, b Errors) int {
		return cmp.Compare(slices.Index(order, a.Split), slices.Index(order, b.Split))
	})
	return all, nil
}

func tasksOf(names []string, judge func(name string) []Errors) (tasks []func() []Errors) {
	return slice.Map(names, func(name string) func() []Errors { return func() []Errors { return judge(name) } })
}

// judgeDevice leaves a device out, and then parts of it.
func judgeDevice(points []Point, name string, each bool) []Errors {
	mine, others := slice.Partition(points, func(p *Point) bool { return p.Measurement.Device == name })
	var all []Errors
	start := Start()
	if len(others) > 0 {
		start = Fit(others, Start())
		all = summaries(LeaveDevice, name, guesses(start, mine, others), each)
	}
	return append(all, JudgeParts(mine, start, each)...)
}

// JudgeParts leaves parts of one device's measurements out. start are parameters that other
// measurements determine. Kernels are corrected as pricing corrects them.
func JudgeParts(mine []Point, start Parameters, each bool) (all []Errors) {
	for _, split := range []Split{LeaveWidth, LeaveShape} {
		var left []guess
		for fold := range uint32(folds) {
			out, in := slice.Partition(mine, func(p *Point) bool { return part(split, &p.Kernel) == fold })
			if len(out) == 0 || len(in) == 0 {
				continue
			}
			e := Learn(mine[0].Device, start, in)
			for i := range out {
				left = append(left, guess{&out[i], e.judged(out[i].Kernel)})
			}
		}
		all = append(all, summaries(split, mine[0].Measurement.Device, left, each)...)
	}
	return all
}

// JudgeWith returns the errors of an estimator on measurements of one device. The split says which
// of them it learned from.
func JudgeWith(e *Estimator, split Split, mine []Point, each bool) []Errors {
	var all []guess
	for i := range mine {
		all = append(all, guess{&mine[i], e.judged(mine[i].Kernel)})
	}
	return summaries(split, mine[0].Measurement.Device, all, each)
}

// ByDevice divides measurements by their devices, in order of their first appearance.
func ByDevice(points []Point) (groups [][]Point) {
	for _, name := range slice.Distinct(points, func(p *Point) string { return p.Measurement.Device }) {
		mine, _ := slice.Partition(points, func(p *Point) bool { return p.Measurement.Device == name })
		groups = append(groups, mine)
	}
	return groups
}

// judgeModel leaves a model out, unless a device has no other.
func judgeModel(points []Point, name string, each bool) []Errors {
	mine, others := slice.Partition(points, func(p *Point) bool { return p.Model == name })
	seen := slice.Distinct(others, func(p *Point) string { return p.Measurement.Device })
	mine, _ = slice.Partition(mine, func(p *Point) bool { return slices.Contains(seen, p.Measurement.Device) })
	if len(mine) == 0 {
		return nil
	}
	return summaries(LeaveModel, name, guesses(Fit(others, Start()), mine, others), each)
}

// guesses predicts the kernels of the groups that the fit has seen.
func guesses(p Parameters, points, fitted []Point) (all []guess) {
	var seen [groupCount]bool
	for i := range fitted {
		seen[groupOf(fitted[i].Kernel.Kind)] = true
	}
	for i := range points {
		q := &points[i]
		if seen[groupOf(q.Kernel.Kind)] {
			all = append(all, guess{q, p.Seconds(q.Device, &q.Kernel)})
		}
	}
	return all
}

// part returns the fold of a kernel. Widths of attention are those of its context.
func part(split Split, k *Kernel) uint32 {
	h := fnv.New32a()
	if split == LeaveWidth {
		fmt.Fprint(h, k.Kind, k.Out, k.In)
	} else {
		fmt.Fprint(h, k.Kind, k.Out, k.In, k.Tokens)
	}
	return h.Sum32() / 7 % folds
}

// summaries returns the errors by group, of whole layers, and of operators with each.
func summaries(split Split, left string, all []guess, each bool) (list []Errors) {
	for g := range groupCount {
		list = appendErrors(list, split, left, groupNames[g], all, func(q guess) bool { return groupOf(q.Kernel.Kind) == g })
	}
	if layers := wholeLayers(all); len(layers) > 0 {
		list = append(list, errorsOf(split, left, "layer", layers))
	}
	if each {
		for _, name := range Operators() {
			list = appendErrors(list, split, left, name, all, func(q guess) bool { return q.Operator == name })
		}
	}
	return list
}

func appendErrors(list []Errors, split Split, left, operator string, all []guess, is func(q guess) bool) []Errors {
	if chosen := slice.Filter(all, is); len(chosen) > 0 {
		return append(list, errorsOf(split, left, operator, chosen))
	}
	return list
}

// layer has the calls of an operator in one dense layer without attention itself. add_norm stands
// for norm and add.
var layer = map[string]float64{
	"qkv_proj": 1, "rope": 1, "out_proj": 1, "up_proj": 1, "activation": 1, "down_proj": 1,
	"norm": 2, "add": 2, "add_norm": 2,
}

// wholeLayers sums the operators of a layer, for each device, model, degree and number of tokens
// that has all products.
func wholeLayers(all []guess) (layers []guess) {
	type key struct {
		device, model    string
		parallel, tokens int
	}
	sums, products, order := map[key]*guess{}, map[key]int{}, []key(nil)
	for i := range all {
		q := &all[i]
		calls, ok := layer[q.Operator]
		if !ok {
			continue
		}
		k := key{q.Measurement.Device, q.Model, q.TensorParallel, q.Tokens}
		if sums[k] == nil {
			sums[k] = &guess{Point: &Point{Measurement: q.Measurement, Kernel: q.Kernel}}
			order = append(order, k)
		}
		sums[k].Seconds += calls * q.Seconds
		sums[k].predicted += calls * q.predicted
		if q.Kernel.Kind == Product {
			products[k]++
		}
	}
	for _, k := range order {
		if products[k] == 4 {
			layers = append(layers, *sums[k])
		}
	}
	return layers
}

func errorsOf(split Split, left, operator string, all []guess) Errors {
	var bias, size, beyond []float64
	for i := range all {
		q := &all[i]
		e := q.predicted/q.Seconds - 1
		bias, size = append(bias, e), append(size, math.Abs(e))
		beyond = append(beyond, max(0, math.Abs(q.predicted-q.Seconds)-q.Kernel.Software.Resolution/2)/q.Seconds)
	}
	slices.Sort(bias)
	slices.Sort(size)
	slices.Sort(beyond)
	return Errors{Split: split, Left: left, Operator: operator, Count: len(all),
		Bias: slice.Quantile(bias, 0.5), Median: slice.Quantile(size, 0.5), P95: slice.Quantile(size, 0.95), Worst: size[len(size)-1],
		Beyond: slice.Quantile(beyond, 0.5), BeyondP95: slice.Quantile(beyond, 0.95)}
}
