package echo_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/echo"
	"github.com/kvreplay/kvreplay/replay"
)

const (
	treeLeaves   = 32
	treeFeatures = len(echo.Observed{}.Features)
	bounds       = 255 // splits of a feature
	smooth       = 200 // examples without error in each sum, and least examples of a leaf
)

// featureNames are the features in the order of their constants.
var featureNames = [treeFeatures]string{"byScore", "byDistance", "byQuarter", "byAround", "bySharp", "bySlow", "byAge", "byGap", "byRate", "byStep"}

// grown is a tree. Each split sends the blocks of a leaf that are above a bound to a new leaf.
type grown struct {
	splits []split
	values [treeLeaves]int64
}

type split struct{ leaf, feature, above int }

// observe returns the examples of the requests that keep selects, one of every n blocks.
func (c *counter) observe(pattern string, n int, keep func(string) bool) (all []echo.Observed) {
	c.t.Helper()
	capacities, err := replay.ParseCapacities(sizes[:1])
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range c.files(pattern) {
		var requests []string
		for _, row := range c.run(path, replay.Options{Policies: []policies.Spec{named(c.t, "echo")}, Capacities: capacities, Per: replay.PerRequest}) {
			if keep(*row.RequestID) {
				requests = append(requests, *row.RequestID)
			}
		}
		if len(requests) > 0 {
			c.run(path, replay.Options{Policies: []policies.Spec{echo.Observe(n, &all)}, Capacities: capacities, Requests: requests, Workers: 1})
		}
	}
	return all
}

// sum is the number of examples and the sum of their errors.
type sum struct{ n, errors int64 }

// sums has the sum of the examples of a leaf by each value of each feature.
type sums [treeFeatures][bounds + 1]sum

// best returns the bound of the leaf that lowers the squared error most, and by how much.
func (s *sums) best() (gain float64, feature, above int) {
	// The conversions forbid fused operations, which some processors lack.
	part := func(s sum) float64 { return float64(float64(s.errors)*float64(s.errors)) / float64(s.n+smooth) }
	for f := range s {
		var low, all sum
		for _, v := range s[f] {
			all.n, all.errors = all.n+v.n, all.errors+v.errors
		}
		for b, v := range s[f][:bounds] {
			low.n, low.errors = low.n+v.n, low.errors+v.errors
			high := sum{all.n - low.n, all.errors - low.errors}
			if low.n < smooth || high.n < smooth {
				continue
			}
			if g := part(low) + part(high) - part(all); g > gain {
				gain, feature, above = g, f, b
			}
		}
	}
	return gain, feature, above
}

func (s *sums) set(examples []echo.Observed, errors []int64, of []int32) {
	*s = sums{}
	for _, i := range of {
		for f, v := range examples[i].Features {
			at := &s[f][v]
			at.n++
			at.errors += errors[i]
		}
	}
}

// grow boosts trees on the squared error of 2^(-(n-1)/3) by examples. Sums are integers, so that they do
// not depend on the machine.
func grow(examples []echo.Observed, trees int) (forest []grown) {
	errors := make([]int64, len(examples))
	mean := int64(0)
	for i, e := range examples {
		if e.Next > 0 {
			errors[i] = int64(math.Round(65536 * math.Exp2(float64(1-e.Next)/3)))
		}
		mean += errors[i]
	}
	mean /= int64(len(examples))
	for i := range errors {
		errors[i] -= mean
	}
	for range trees {
		var tree grown
		leaves := make([][]int32, 1, treeLeaves)
		for i := range examples {
			leaves[0] = append(leaves[0], int32(i))
		}
		all := make([]sums, 1, treeLeaves)
		all[0].set(examples, errors, leaves[0])
		type choice struct {
			gain           float64
			feature, above int
		}
		var choices [treeLeaves]choice
		choose := func(l int) { choices[l].gain, choices[l].feature, choices[l].above = all[l].best() }
		choose(0)
		for len(leaves) < treeLeaves {
			l := 0
			for i := range leaves {
				if choices[i].gain > choices[l].gain {
					l = i
				}
			}
			c := choices[l]
			if c.gain <= 0 {
				panic("no split of a leaf lowers the error")
			}
			tree.splits = append(tree.splits, split{l, c.feature, c.above})
			var low, high []int32
			for _, i := range leaves[l] {
				if int(examples[i].Features[c.feature]) > c.above {
					high = append(high, i)
				} else {
					low = append(low, i)
				}
			}
			leaves[l] = low
			leaves = append(leaves, high)
			all = append(all, sums{})
			at, other := &all[l], &all[len(all)-1]
			small := high
			if len(low) < len(high) {
				small = low
			}
			other.set(examples, errors, small)
			for f := range at {
				for b := range at[f] {
					at[f][b].n -= other[f][b].n
					at[f][b].errors -= other[f][b].errors
				}
			}
			if len(low) < len(high) {
				*at, *other = *other, *at
			}
			choose(l)
			choose(len(leaves) - 1)
		}
		for l, of := range leaves {
			total := int64(0)
			for _, i := range of {
				total += errors[i]
			}
			tree.values[l] = total / (4 * (int64(len(of)) + smooth))
			for _, i := range of {
				errors[i] -= tree.values[l]
			}
		}
		forest = append(forest, tree)
	}
	return forest
}

// source returns the Go file with the constants of trees.
func source(forest []grown) string {
	var b strings.Builder
	b.WriteString("// Code generated by go test ./policies/echo -run Trees -update. DO NOT EDIT.\n\npackage echo\n\n")
	fmt.Fprintf(&b, "var trees = [%d]tree{\n", len(forest))
	for _, tree := range forest {
		b.WriteString("\t{[leaves - 1]split{")
		for i, s := range tree.splits {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "{%d, %s, %d}", s.leaf, featureNames[s.feature], s.above)
		}
		b.WriteString("}, [leaves]int32{")
		for i, v := range tree.values {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprint(&b, v)
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// A warm-up fills a pool before the streams have steps. Its blocks then compete.
func TestTreesInPools(t *testing.T) {
	warmup, err := replay.ParseWarmup("staging")
	fatal.If(t, err)
	pool, err := replay.ParsePool("request")
	fatal.If(t, err)
	capacities, err := replay.ParseCapacities([]string{"2x"})
	fatal.If(t, err)
	c := newCounter(t, committed)
	rows := c.run("../../datasets/bundled/smollm2_multi_news_8k.parquet", replay.Options{Policies: []policies.Spec{named(t, "echo:calibrate=trees")}, Capacities: capacities, Warmup: warmup, Pool: pool})
	if len(rows) != 1 || rows[0].Misses != 21012 {
		t.Errorf("%d rows, misses %d, expected 21012", len(rows), rows[0].Misses)
	}
}

// The constants of the trees are those that the tuned requests give.
func TestTrees(t *testing.T) {
	if testing.Short() {
		t.Skip("trains on 21 requests")
	}
	c := newCounter(t, committed)
	examples := slices.Concat(c.observe("corpus/wide_*", 17, isTuned), c.observe("corpus/deep_vt", 47, every))
	got := source(grow(examples, 32))
	want, err := os.ReadFile("constants.go")
	fatal.If(t, err)
	if got != string(want) {
		rewrite(t, "constants.go", got, "Trees")
		t.Fatal("constants.go is written: run go test ./policies/echo -run README -update next")
	}
}
