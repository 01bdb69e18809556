package board

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Values follow by hand: all of six repeats favour the candidate by a tenth, so 2 of the 64 exchanges
// are as extreme. Two candidates double the least p.
func TestPairs(t *testing.T) {
	base, better := []float64{1, 2, 3, 4, 5, 6}, make([]float64, 6)
	for i, v := range base {
		better[i] = 1.1 * v
	}
	got := Pairs(base, [][]float64{better, base}, 1)
	if p := got[0]; math.Abs(*p.Ratio-1.1) > 1e-9 || math.Abs(*p.Low-1.1) > 1e-6 || math.Abs(*p.High-1.1) > 1e-6 || *p.P != 2*2./64 {
		t.Errorf("ratio %g, %g to %g, p %g", *p.Ratio, *p.Low, *p.High, *p.P)
	}
	if p := got[1]; *p.Ratio != 1 || *p.Low != 1 || *p.High != 1 || *p.P != 1 {
		t.Errorf("with itself: ratio %g, %g to %g, p %g", *p.Ratio, *p.Low, *p.High, *p.P)
	}
	if none := Pairs(make([]float64, 6), [][]float64{make([]float64, 6)}, 1)[0]; none.Ratio != nil || none.Low != nil || *none.P != 1 {
		t.Errorf("of zeros: %+v", none)
	}
	if few := Pairs(base[:4], [][]float64{better[:4]}, 1)[0]; few.Low != nil || few.Ratio == nil {
		t.Errorf("of four repeats: %+v", few)
	}
}

// Without a difference, about one in 20 intervals misses the ratio 1, and as many p are below 0.05.
func TestPairsOfEquals(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 1))
	missed, significant := 0, 0
	const runs = 200
	for seed := range uint64(runs) {
		a, b := make([]float64, 10), make([]float64, 10)
		for i := range a {
			common := 1 + r.Float64()
			a[i], b[i] = common+0.2*r.NormFloat64(), common+0.2*r.NormFloat64()
		}
		p := Pairs(b, [][]float64{a}, seed)[0]
		if *p.Low > 1 || *p.High < 1 {
			missed++
		}
		if *p.P < Significant {
			significant++
		}
	}
	if missed > runs/10 || significant > runs/10 {
		t.Errorf("%d of %d intervals miss 1, and %d p are below %g", missed, runs, significant, Significant)
	}
}
