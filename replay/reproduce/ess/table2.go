package ess

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// row is a row of Table 2.
type row struct {
	mtp        int // positions of a step
	context    int // tokens
	accept     float64
	batch      int
	ratio      float64 // Sparse Memory Ratio as printed
	throughput float64 // tokens/s of a node
	otps       float64 // tokens/s of a request
}

// gpus is what a node has: throughput = 8·batch·OTPS in 17 of 18 rows.
const gpus = 8

const short, long = 32 << 10, 128 << 10

var table2 = []row{
	{2, short, 1.7, 52, 1, 9647.71, 23.19},
	{2, short, 1.7, 64, 0.82, 10693.31, 20.89},
	{2, short, 1.7, 96, 0.48, 13155.98, 17.13},
	{2, short, 1.7, 128, 0.31, 15620.14, 15.25},
	{2, short, 1.7, 160, 0.21, 16347.88, 12.77},
	{4, short, 2.8, 52, 1, 12168.02, 29.25},
	{4, short, 2.8, 64, 0.82, 13656.66, 26.67},
	{4, short, 2.8, 96, 0.48, 15814.07, 20.59},
	{4, short, 2.8, 128, 0.31, 17746.10, 17.33},
	{4, short, 2.8, 160, 0.21, 17601.03, 13.75},
	{4, short, 3.4, 52, 1, 14775.45, 35.52},
	{4, short, 3.4, 64, 0.82, 16583.08, 32.39},
	{4, short, 3.4, 96, 0.48, 19202.80, 25.00},
	{4, short, 3.4, 128, 0.31, 21548.83, 21.04},
	{4, short, 3.4, 160, 0.21, 21372.68, 16.70},
	{2, long, 1.7, 13, 1, 3669.19, 23.19},
	{2, long, 1.7, 40, 0.2, 6925.06, 21.64},
	{2, long, 1.7, 54, 0.1, 8169.60, 18.91},
}

func (r *row) String() string {
	return fmt.Sprintf("%dK, MTP %d, accept %.1f, batch %d (%.2g)", r.context>>10, r.mtp, r.accept, r.batch, r.ratio)
}

// seconds are a step's, of which a request gets accept tokens.
func (r *row) seconds() float64 { return r.accept * gpus * float64(r.batch) / r.throughput }

// find is the row of a setting.
func find(context, mtp int, accept float64, batch int) *row {
	for i := range table2 {
		if r := &table2[i]; r.context == context && r.mtp == mtp && r.accept == accept && r.batch == batch {
			return r
		}
	}
	panic("no such row")
}

// gain is the growth of throughput from one row to another, in percent.
func gain(from, to *row) float64 { return 100 * (to.throughput/from.throughput - 1) }

// headlines are the paper's, of rows that are their best.
var headlines = []struct {
	item     string
	printed  float64 // %
	from, to *row
	rounding float64
}{
	{"32K, MTP 2", 69.4, find(short, 2, 1.7, 52), find(short, 2, 1.7, 160), 0.05},
	{"32K, MTP 4, accept 3.4", 45.8, find(short, 4, 3.4, 52), find(short, 4, 3.4, 128), 0.05},
	{"128K, MTP 2", 123, find(long, 2, 1.7, 13), find(long, 2, 1.7, 54), 0.5},
}

// arithmetic holds what Table 2 says of itself.
func (s *study) arithmetic() ([]reproduce.Section, error) {
	rates := reproduce.Section{Name: "table-2-identities", Title: "Table 2: throughput and OTPS of the same row",
		Method: "OTPS = throughput ÷ (8 GPUs × batch), from the printed throughput. The step's time is the accepted tokens ÷ OTPS: it must not depend on the accept ratio, as the rows at 2.8 and 3.4 are of the same steps."}
	for i := range table2 {
		r := &table2[i]
		l := reproduce.Compare(reproduce.Arithmetic, r.String()+", OTPS", "tokens/s", reproduce.Printed(r.otps), r.throughput/gpus/float64(r.batch), reproduce.Gate{Absolute: 0.005})
		if r.context == long && r.batch == 13 {
			l.Known, l.Note = true, "the OTPS of the 32K row is printed twice"
		}
		rates.Lines = append(rates.Lines, l)
	}
	for _, batch := range []int{52, 64, 96, 128, 160} {
		a, b := find(short, 4, 2.8, batch), find(short, 4, 3.4, batch)
		rates.Lines = append(rates.Lines, reproduce.Compare(reproduce.Arithmetic, fmt.Sprintf("32K, MTP 4, batch %d, step at accept 3.4 as at 2.8", batch), "ms",
			reproduce.Reference(1e3*a.seconds(), "accepted tokens × 8 GPUs × batch ÷ the printed throughput at accept 2.8"), 1e3*b.seconds(), reproduce.Gate{Relative: 1e-5}))
	}
	rates.Contradictions = []string{
		"Row 128K, batch 13 prints an OTPS of 23.19, that of row 32K, batch 52; its throughput of 3669.19 tokens/s is 35.28 a request.",
		"18 rows are 13 measurements: the five rows at accept ratio 3.4 are those at 2.8 times 3.4/2.8.",
	}
	best := reproduce.Section{Name: "headlines", Title: "Headlines: +69.4 %, +45.8 %, +123 %", Method: "Throughput of the best row over that without offloading, as printed."}
	for _, h := range headlines {
		best.Lines = append(best.Lines, reproduce.Compare(reproduce.Arithmetic, fmt.Sprintf("%s, batch %d over %d", h.item, h.to.batch, h.from.batch), "%",
			reproduce.Printed(h.printed), gain(h.from, h.to), reproduce.Gate{Absolute: h.rounding}))
	}
	best.Contradictions = []string{"The MTP 4 headline is that of batch 128: batch 160 gives +44.6 %, fewer tokens/s than 128 although it was offloaded further."}
	return []reproduce.Section{rates, best}, nil
}
