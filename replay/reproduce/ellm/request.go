package ellm

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/reproduce"
)

// gpuOf is an A100 with 80 GB, nine tenths for weights, KV and M_o.
func (s *study) gpuOf(flops float64) gpu {
	card := s.machine.GPU
	return gpu{flops: flops, bandwidth: float64(card.MemoryBandwidth.Value), memory: 0.9 * float64(card.Memory.Value), weights: pipeline.GPUWeights(s.model, 1)}
}

// waiting is how many requests of equal length wait: vLLM's largest batch in the paper.
const waiting = 512

// request holds Eq. 1: which batch and share are best.
func (s *study) request() (section reproduce.Section, err error) {
	section = reproduce.Section{Name: "optimiser", Title: "Equation 1: batch and uncached share",
		Method: fmt.Sprintf("Requests of %d tokens wait, Llama2-13B on an A100 with 80 GB, 50 ms a token. Literal, time rises with the share, and the least that fits is best; corrected, a step takes the longer of arithmetic and of reading weights and cache, and the share is best where both take as long: the search over batches is exact. Beside it gonum's Nelder–Mead on real numbers, as the paper's solver does it, and kvreplay plan with --schedule ellm.", length)}
	queue, g, first := slices.Repeat([]float64{length}, waiting), s.gpuOf(a100), equal(1, length)
	literal, _ := s.shape.optimum(g, queue, slo, false)
	corrected, _ := s.shape.optimum(g, queue, slo, true)
	section.Lines = []reproduce.Line{
		reproduce.ByHand("T of one request, nothing uncached, literal", "ms", 319_173_427_200/a100*1e3, 1e3*s.shape.latency(g, first, 0, false)),
		reproduce.ByHand("largest batch within 50 ms, nothing uncached, literal", "", math.Floor(slo*a100/319_173_427_200), float64(literal.batch)),
	}
	if err := s.solved(&section, g, literal, corrected); err != nil {
		return section, err
	}
	if err := s.planned(&section, corrected); err != nil {
		return section, err
	}
	section.Lines = append(section.Lines, s.robust(queue, 1.2, 1.6), s.robust(queue, 0.8, 1.9))
	one, weights := s.shape.latency(g, first, uncached, false), 24*s.shape.hidden*s.shape.hidden*s.shape.layers*length
	section.Contradictions = []string{
		"The printed objective never recomputes: T is linear in b, so that b/T of equal requests does not depend on b, and T rises with r. Its maximum is r = 0 wherever one request fits. With the time of reading weights and cache, which section 6.6 says is left out, batching pays, and what hides behind reading may be recomputed: " +
			fmt.Sprintf("%.1f %% of the tokens.", 100*corrected.share),
		fmt.Sprintf("With the mean share of %s uncached, Eq. 4 gives %.1f ms for a single request, so that 50 ms hold %.1f; the paper reports a mean time per token of 48.4 ms with hundreds of requests running.", percent(uncached), 1e3*one, slo/one),
		fmt.Sprintf("To admit one more request of %d tokens by recomputing as many takes 24h²Ls = %.2f TFLOP, %.1f ms of every step at the A100's peak, attention not counted.", length, weights/1e12, 1e3*weights/a100),
	}
	return section, nil
}

// solved adds what the general optimiser finds.
func (s *study) solved(section *reproduce.Section, g gpu, literal, corrected operating) error {
	start := operating{batch: 30, share: 0.4}
	found, err := s.shape.relaxed(g, length, slo, waiting, start, false)
	if err != nil {
		return fmt.Errorf("eq. 1, literal: %w", err)
	}
	real, err := s.shape.relaxed(g, length, slo, waiting, start, true)
	if err != nil {
		return fmt.Errorf("eq. 1, corrected: %w", err)
	}
	section.Lines = append(section.Lines,
		reproduce.Statement("literal, nothing is left uncached, by search and by gonum from r = 0.4; the larger share", "%", rounded(100*math.Max(literal.share, found.share)), math.Max(literal.share, found.share) < 1e-3),
		reproduce.Statement("corrected, gonum finds the search's share; gonum's", "%", rounded(100*real.share), math.Abs(real.share-corrected.share) < 1e-3),
		reproduce.Statement("corrected, gonum finds the search's tokens/s to 1 %; gonum's", "tokens/s", rounded(real.rate), math.Abs(real.rate/corrected.rate-1) < 0.01),
		reproduce.Absent("time to solve, at most (section 6.7)", "ms", reproduce.Printed(21), "a time of the machine that reproduces: go test -bench Optimum ./replay/reproduce/ellm prints it"))
	return nil
}

// rounded drops what a general optimiser leaves to chance.
func rounded(v float64) float64 { return math.Round(v*100) / 100 }

// planned adds what kvreplay plan finds.
func (s *study) planned(section *reproduce.Section, corrected operating) error {
	found, err := s.decode(waiting, "ellm").Plan(s.ctx, slo)
	if err != nil {
		return err
	}
	chosen, err := pipeline.ParseSchedule(found.Schedule)
	if err != nil {
		return err
	}
	share := chosen.(*pipeline.ELLM).Uncached
	near := math.Abs(float64(found.Batch-corrected.batch)) < 0.05*float64(corrected.batch)
	l := reproduce.Statement("kvreplay plan --schedule ellm finds a batch within 5 % of the corrected search's", "", float64(found.Batch), near)
	l.Note = fmt.Sprintf("the search's is %d", corrected.batch)
	pays := reproduce.Statement("some tokens stay uncached at the best batch (section 6.2: 36 %)", "", share, share > 0)
	section.Lines = append(section.Lines, l, pays.Unless("recomputing them costs more time than the larger batch saves, by the roofline as by the equations"))
	return nil
}

// robust is what a misjudged FLOP/s costs: the choice is made with factor times the GPU's.
func (s *study) robust(queue []float64, factor, printed float64) reproduce.Line {
	wrong, _ := s.shape.optimum(s.gpuOf(factor*a100), queue, slo, true)
	right, _ := s.shape.optimum(s.gpuOf(a100), queue, slo, true)
	t := s.shape.latency(s.gpuOf(a100), equal(wrong.batch, length), wrong.share, true)
	lost := 100 * (1 - float64(wrong.batch)/t/right.rate)
	l := reproduce.Statement(fmt.Sprintf("throughput lost where FLOP/s are taken %+.0f %% off (printed: %g %%)", 100*(factor-1), printed), "%", lost, lost <= printed)
	if !l.Holds && factor > 1 {
		l.Known, l.Note = true, "the optimum recomputes what hides behind reading, and not a token more: with FLOP/s taken too high it recomputes more than hides"
	}
	return l
}
