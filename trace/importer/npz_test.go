package importer

import (
	"strings"
	"testing"
)

// The scalars of an npz agree with each other and with the lists. The prompt has 10 tokens and the
// output 3. Two rows at the positions 11 and 12 are then steps 1 and 2.
func TestNPZScalars(t *testing.T) {
	good := npzArrays{indices: []int32{11, 12}, steps: 2, layers: 1, topk: 1, prompt: 10, output: 3, context0: 11}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*npzArrays){
		"its last is step 2, but output_len is 2":    func(a *npzArrays) { a.output = 2 },
		"row 0 selects position 12, but":             func(a *npzArrays) { a.indices = []int32{12, 12} },
		"row 1 selects position 13, but":             func(a *npzArrays) { a.indices = []int32{11, 13} },
		"prompt_len -1, output_len 3, slot_ctx0 11":  func(a *npzArrays) { a.prompt = -1 },
		"prompt_len 10, output_len -1, slot_ctx0 11": func(a *npzArrays) { a.output = -1 },
		"slot_ctx0 -1, expected 0 to 2^30":           func(a *npzArrays) { a.context0 = -1 },
		"output_len 1073741825, slot_ctx0 11":        func(a *npzArrays) { a.output = 1<<30 + 1 },
	} {
		bad := good
		change(&bad)
		if err := bad.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}
