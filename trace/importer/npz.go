package importer

import (
	"fmt"
	"slices"
	"strings"

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

// MissingError is the error of a source for which options are missing.
type MissingError struct {
	Format Format
	Flags  []string // that state them on the command line
}

// Error names all flags at once.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%v does not state everything: give %s", e.Format, strings.Join(e.Flags, " and "))
}

// missingNPZ is the error of the options that an npz needs, nil if all are stated.
func missingNPZ(o *Options) error {
	e := &MissingError{Format: NPZ}
	if o.RequestID == "" {
		e.Flags = append(e.Flags, "--request-id ID")
	}
	if o.Stated.Order == "" {
		e.Flags = append(e.Flags, "--order rank (lists are best first) or index (their order means nothing)")
	}
	if e.Flags == nil {
		return nil
	}
	return e
}

// Missing is the error of the options that a source of format f needs and o does not state,
// nil if none is missing.
func (o *Options) Missing(f Format) error {
	if f == NPZ {
		return missingNPZ(o)
	}
	return nil
}

// decodeNPZ reads the arrays of one request, whole.
func decodeNPZ(s *source, c *collector) error {
	if missing := missingNPZ(c.opts); missing != nil {
		return missing
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
