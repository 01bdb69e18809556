package schedule

import (
	"errors"
	"fmt"

	"github.com/kvreplay/kvreplay/policies"
)

// TBO divides the batch in two halves (two-batch overlap, which ESS's simulator has for DeepSeek).
// While one half waits for a transfer, the other half computes. Transfers are the fetch of a layer,
// and the dispatch and the combine of its experts (DeepSeek-V3, Technical Report, arXiv 2412.19437,
// section 3.4). Weights are read for each half.
//
// A transfer ends a stage of the SMs. The halves take turns, stage by stage:
//
//	project, select | fetch | attention, output projection | dispatch | routed experts | combine
//
// Without dispatch and combine, the attention and FFN of a layer and the selection of the next one
// are a stage. Within a half, DA and DBA overlap the fetch as they do for a whole batch.
type TBO struct {
	wholeBatch
	Apart bool // attention on residents does not wait for the fetch
	Split *DBA // division of the selection, or nil
}

func parseTBO(options string) (Schedule, error) {
	within, d, delta := "none", &DBA{Phi: 0.5}, 0.
	_, err := policies.ParseOptions(options, policies.Word("within", &within, "none", "da", "dba"),
		policies.Float("phi", &d.Phi, 0, 1), policies.Float("delta_us", &delta, 0, 1e6))
	if err != nil {
		return nil, err
	}
	b := &TBO{wholeBatch: wholeBatch{"tbo"}, Apart: within != "none"}
	if d.Delta = delta * 1e-6; within == "dba" {
		b.Split = d
		b.name = fmt.Sprintf("tbo:within=dba,phi=%g,delta_us=%g", d.Phi, delta)
		return b, nil
	}
	if d.Phi != 0.5 || delta != 0 {
		return nil, errors.New("phi and delta_us need within=dba")
	}
	if b.Apart {
		b.name = "tbo:within=da"
	}
	return b, nil
}

// Parts returns 2.
func (*TBO) Parts() int { return 2 }

// Place adds a step.
func (b *TBO) Place(t *Timeline, s *Step) {
	parts := s.parts()
	halves := make([]half, len(parts))
	for p := range parts {
		halves[p] = half{TBO: b, layers: parts[p], part: p, last: None, waits: None}
	}
	for turns := true; turns; {
		turns = false
		for p := range halves {
			turns = halves[p].turn(t) || turns
		}
	}
	done := None
	for p := range halves {
		done = t.later(done, halves[p].last)
	}
	t.Add(Output, len(s.Whole), 0, s.Output, done)
}

// half is a half of the batch on its way through the layers.
type half struct {
	*TBO
	layers []Layer
	part   int
	layer  int   // next layer, or the current one
	next   stage // of the layer
	last   Op    // last operation, whose transfer the next stage waits for
	waits  Op    // fetch of the layer
}

// stage is a part of a layer between transfers.
type stage int

const (
	selecting stage = iota
	attending
	routing // routed experts on several GPUs
)

// turn adds operations up to the next transfer. It returns false after the last layer.
func (h *half) turn(t *Timeline) bool {
	if h.layer == len(h.layers) {
		return false
	}
	for h.layer < len(h.layers) {
		l := &h.layers[h.layer]
		switch {
		case h.next == selecting:
			h.last, h.waits = t.selectApart(l, h.layer, [2]int{h.part, h.part}, h.Split, h.last)
			h.next = attending
			return true
		case h.next == routing:
			h.last = t.experts(l, h.layer, h.part, h.last)
			h.next, h.layer = selecting, h.layer+1
			return true
		}
		if h.Apart {
			h.last = t.attendApart(l, h.layer, h.part, h.waits, h.last)
		} else {
			h.last = t.attend(l, h.layer, h.part, h.waits, h.last)
		}
		if l.exchanges() {
			h.last = t.dispatch(l, h.layer, h.part, h.last)
			h.next = routing
			return true
		}
		h.last = t.finish(l, h.layer, h.part, h.last)
		h.next, h.layer = selecting, h.layer+1
	}
	return true
}
