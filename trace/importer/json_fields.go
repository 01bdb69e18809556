package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// lineFields are the fields of a line of JSONL that are read.
var lineFields = []string{"request_id", "layer_id", "head", "head_id", "step_idx", "seq_len_current", "selected_token_pos", "scores_topk"}

// checkLineFields reports what encoding/json lets pass: a field that is read and stands
// twice, or is spelled in other case. text is valid JSON.
func checkLineFields(text []byte) error {
	var seen [16]bool // by lineFields
	return visitFields(text, func(name string) error {
		i := slices.IndexFunc(lineFields, func(known string) bool { return strings.EqualFold(name, known) })
		switch {
		case i < 0:
			return nil
		case name != lineFields[i]:
			return fmt.Errorf("field %q, expected %q", name, lineFields[i])
		case seen[i]:
			return fmt.Errorf("field %q stands twice, expected it once", name)
		}
		seen[i] = true
		return nil
	})
}

// visitFields hands over the names of the fields of an object, which is valid JSON, but not
// of objects inside it.
func visitFields(text []byte, visit func(name string) error) error {
	depth, name := 0, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
			name = depth == 1
		case '}', ']':
			depth--
		case ',':
			name = depth == 1
		case '"':
			end := stringEnd(text, i)
			if name {
				var s string
				if err := json.Unmarshal(text[i:end], &s); err != nil {
					return err
				}
				if err := visit(s); err != nil {
					return err
				}
			}
			name, i = false, end-1
		}
	}
	return nil
}

// stringEnd is where the string that begins at i ends.
func stringEnd(text []byte, i int) int {
	for i++; ; {
		k := bytes.IndexAny(text[i:], `"\\`)
		if k < 0 {
			return len(text)
		}
		if i += k; text[i] == '"' {
			return i + 1
		}
		i += 2
	}
}
