package importer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kvreplay/kvreplay/trace"
)

// npzArrays are what an .npz holds: the lists as (steps, layers, topk) and three
// scalars.
type npzArrays struct {
	indices             []int32
	steps, layers, topk int
	prompt, output      int // tokens of prompt and completion
	context0            int // slot_ctx0: tokens in the cache before row 0's, so its position
}

// decodeNPZ reads the arrays of one request, whole.
func decodeNPZ(s *source, c *collector) error {
	if c.opts.RequestID == "" {
		return errors.New("an npz does not name its request: state --request-id")
	}
	if c.opts.Stated.Order == "" {
		return errors.New("an npz does not say what the order of its lists means: state --order rank (best first) or --order index (no meaning; lists get sorted)")
	}
	file, size, err := s.randomAccess()
	if err != nil {
		return err
	}
	a, ignored, err := readNPZ(stoppable{c.ctx, file}, size, c.opts.wholeLimit())
	if err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return err
	}
	for _, name := range ignored {
		c.warn("%s: array %s is not read", s.path, name)
	}
	return a.add(s, c)
}

// add hands on the records; row t is the query at position slot_ctx0 + t.
func (a *npzArrays) add(s *source, c *collector) error {
	rec := record{request: c.opts.RequestID, head: trace.NoHead}
	for t := range a.steps {
		rec.at, rec.seqLen = int64(t), int32(a.context0+t+1)
		rec.step = int32(a.context0 - a.prompt + t)
		for layer := range a.layers {
			rec.layer = int32(layer)
			at := (t*a.layers + layer) * a.topk
			rec.indices = append(rec.indices[:0], a.indices[at:at+a.topk]...)
			if err := c.add(s, &rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// check holds the scalars against each other and the lists.
func (a *npzArrays) check() error {
	last := a.context0 - a.prompt + a.steps - 1
	switch {
	case a.prompt < 0 || a.output < 0 || a.context0 < 0 || max(a.prompt, a.output, a.context0) > 1<<30:
		return fmt.Errorf("prompt_len %d, output_len %d, slot_ctx0 %d, expected 0 to 2^30", a.prompt, a.output, a.context0)
	case last >= a.output:
		return fmt.Errorf("topk_indices has %d rows from step %d (slot_ctx0 %d − prompt_len %d), so its last is step %d, but output_len is %d", a.steps, a.context0-a.prompt, a.context0, a.prompt, last, a.output)
	}
	row := a.layers * a.topk
	for t := range a.steps {
		if x := slices.Max(a.indices[t*row : (t+1)*row]); int(x) > a.context0+t {
			return fmt.Errorf("row %d selects position %d, but by slot_ctx0 %d its query is at position %d, expected none beyond it", t, x, a.context0, a.context0+t)
		}
	}
	return nil
}
