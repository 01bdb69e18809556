// Package servingtest tests schedulers of package serving. Run is a conformance test: every
// implementation passes it.
package servingtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/serving"
)

// Toy prices work in small whole numbers of nanoseconds, without a machine.
type Toy struct{}

// Iteration returns a time that grows with all parts of the work.
func (Toy) Iteration(x *pipeline.Iteration) (int64, error) {
	ns := 100 + x.Context/4 + 3*x.Decodes + 5*x.Outputs + int64(x.Again)
	for _, c := range x.Chunks {
		ns += 7*c.Tokens + c.Tokens*c.Before/16
	}
	return ns, nil
}

// Store returns 11 ns for each block.
func (Toy) Store(blocks int64) int64 { return 11 * blocks }

// Fetch returns 13 ns for each block.
func (Toy) Fetch(blocks int64) int64 { return 13 * blocks }

// Restore returns 2 ns for each token.
func (Toy) Restore(tokens int64) (int64, error) { return 2 * tokens, nil }

// Run fails t unless the schedulers of create pass Check.
func Run(t *testing.T, create func() serving.Scheduler) {
	t.Helper()
	if err := Check(create); err != nil {
		t.Error(err)
	}
}

// overtaken is the number of later requests that may finish before one that arrived earlier. Those
// that run together overtake each other, and they are far fewer.
const overtaken = 200

// Check serves random requests under tight memory. Every call of a scheduler must keep the contract,
// all requests must end, two runs must be equal, and no request may starve. create returns a new
// scheduler for each run.
func Check(create func() serving.Scheduler) error {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		count := 40
		if seed%20 == 0 {
			count = 1000 // an overload, in which an unfair scheduler starves the first
		}
		var all []serving.Request
		at := int64(0)
		for range count {
			at += int64(r.IntN(3) * r.IntN(400))
			all = append(all, serving.Request{Arrival: at, Input: 1 + r.IntN(50), Output: 1 + r.IntN(30)})
		}
		o := serving.Options{BlockTokens: 4, Budget: 4 + r.IntN(30), MaxRunning: 1 + r.IntN(12), Ahead: seed%2 == 0, Reserve: seed%3 == 0, NoPrefix: true,
			Preempt: []pipeline.Resumption{pipeline.ByRecompute, pipeline.BySwap}[r.IntN(2)],
			Memory:  serving.Memory{Total: int64(1000 + 80*8 + r.IntN(2000)), Weights: 100, Block: 32, Host: 500}}
		first, err := serve(all, o, create())
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		again, err := serve(all, o, create())
		if err != nil {
			return fmt.Errorf("seed %d, again: %w", seed, err)
		}
		if !reflect.DeepEqual(first, again) {
			return fmt.Errorf("seed %d: two runs differ", seed)
		}
	}
	return nil
}

// errSteps ends a run that makes no progress.
var errSteps = errors.New("a million iterations, and requests are left")

func serve(all []serving.Request, o serving.Options, s serving.Scheduler) ([]serving.RequestRow, error) {
	o.Scheduler = s
	var ended []serving.RequestRow
	done := make([]bool, len(all))
	behind, later := 0, 0 // requests before behind have ended, and later ones after it
	err := serving.Run(context.Background(), serving.FromSlice(all), Toy{}, o, serving.Rows{
		Request: func(r *serving.RequestRow) error {
			ended = append(ended, *r)
			done[r.ID] = true
			for later++; behind < len(done) && done[behind]; behind++ {
				later--
			}
			if later > overtaken {
				return fmt.Errorf("request %d starves: %d later ones have ended", behind, later)
			}
			return nil
		},
		Step: func(r *serving.StepRow) error {
			if r.Number > 1e6 {
				return errSteps
			}
			return nil
		},
	})
	if err == nil && len(ended) != len(all) {
		err = fmt.Errorf("%d of %d requests end", len(ended), len(all))
	}
	return ended, err
}
