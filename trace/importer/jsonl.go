package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/jsonobject"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace"
)

// maxLine is the longest line that is read, in bytes. It holds about 10 million indices.
const maxLine = 64 << 20

// jsonLine is one line of JSONL. Other fields, such as scores_stats, are reported and ignored.
type jsonLine struct {
	Request *jsonID   `json:"request_id"`
	Layer   *int32    `json:"layer_id"`
	Head    *int32    `json:"head"`
	HeadID  *int32    `json:"head_id"`
	Step    *int32    `json:"step_idx"`
	SeqLen  *int32    `json:"seq_len_current"`
	Indices []int32   `json:"selected_token_pos"`
	Scores  []float64 `json:"scores_topk"`
	narrow  []float32
	ignored []string // names of other fields, of all lines
}

// jsonID is a request id: a string, or a number as its digits.
type jsonID string

// UnmarshalJSON accepts a string or an integer. It rejects text that encoding/json would replace,
// because two ids could become one.
func (id *jsonID) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		written := bytes.Count(b, []byte("\ufffd")) + bytes.Count(bytes.ToLower(b), []byte(`\ufffd`)) // replacement characters
		if !utf8.Valid(b) || strings.Count(s, "\ufffd") != written {
			return fmt.Errorf("the id %.40q is not UTF-8 text, or has half a surrogate pair: convert the file, as with iconv -f latin1 -t utf-8", b)
		}
		*id = jsonID(s)
		return nil
	}
	if _, err := strconv.ParseInt(string(b), 10, 64); err != nil {
		return fmt.Errorf("%.40s is neither a string nor an integer", b)
	}
	*id = jsonID(b)
	return nil
}

func decodeJSONL(s *source, c *collector) error {
	s.unit = "line"
	r, err := s.reader()
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(r, 1<<20)
	var text []byte
	var line jsonLine
	for n := int64(1); ; n++ {
		if text, err = jsonobject.ReadLine(lines, text[:0], maxLine); err == io.EOF {
			for _, name := range line.ignored {
				c.warn("%s: field %.40q is ignored%s", s.path, name, names.Nearest(name, lineFields))
			}
			return nil
		}
		if err != nil {
			return s.errorAt(n, "%w", err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		rec, err := line.record(text, c.opts)
		if err != nil {
			if _, more := lines.Peek(1); more == nil && errors.Is(err, io.ErrUnexpectedEOF) {
				err = errors.New("the record does not end on its line: convert the file to one record per line with `jq -c .`")
			}
			return s.errorAt(n, "%w", err)
		}
		rec.at = n
		if err := c.add(s, &rec); err != nil {
			return err
		}
	}
}

// record parses a line. The record's lists belong to l.
func (l *jsonLine) record(text []byte, o *Options) (record, error) {
	*l = jsonLine{Indices: l.Indices[:0], Scores: l.Scores[:0], narrow: l.narrow[:0], ignored: l.ignored}
	if err := json.Unmarshal(text, l); err != nil {
		return record{}, jsonCause(err)
	}
	if err := l.checkFields(text); err != nil {
		return record{}, err
	}
	if err := l.complete(o); err != nil {
		return record{}, err
	}
	for i, v := range l.Scores {
		if math.IsInf(float64(float32(v)), 0) {
			return record{}, fmt.Errorf("scores_topk[%d] is %v, expected a number that float32 holds", i, v)
		}
		l.narrow = append(l.narrow, float32(v))
	}
	r := record{request: string(*l.Request), layer: *l.Layer, head: trace.NoHead,
		step: *l.Step, seqLen: *l.SeqLen, indices: l.Indices, scores: l.narrow, wide: l.Scores}
	if l.Head != nil {
		r.head = *l.Head
	}
	if r.head < trace.NoHead || l.Head != nil && r.head < 0 {
		return r, fmt.Errorf("head %d, expected 0 or more, or null", r.head)
	}
	return r, nil
}

// complete checks that the line has every field, and adds fields that flags state.
func (l *jsonLine) complete(o *Options) error {
	if l.Request == nil && o.RequestID != "" {
		l.Request = new(jsonID(o.RequestID))
	}
	if l.HeadID != nil {
		if l.Head != nil && *l.Head != *l.HeadID {
			return fmt.Errorf("head %d and head_id %d, expected one of them", *l.Head, *l.HeadID)
		}
		l.Head = l.HeadID
	}
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"request_id (or --request-id)", l.Request == nil}, {"layer_id", l.Layer == nil}, {"step_idx", l.Step == nil},
		{"seq_len_current", l.SeqLen == nil}, {"selected_token_pos", len(l.Indices) == 0},
	} {
		if f.missing {
			return fmt.Errorf("%s is missing or empty, expected in every line", f.name)
		}
	}
	switch {
	case o.RequestID != "" && string(*l.Request) != o.RequestID:
		return fmt.Errorf("request_id is %q, but --request-id is %q", *l.Request, o.RequestID)
	case len(l.Scores) != 0 && len(l.Scores) != len(l.Indices):
		return fmt.Errorf("%d values in scores_topk for %d in selected_token_pos, expected one each", len(l.Scores), len(l.Indices))
	}
	return nil
}

// mostIgnored is the number of ignored fields that are reported.
const mostIgnored = 8

// lineFields are the fields that are read from a line of JSONL.
var lineFields = []string{"request_id", "layer_id", "head", "head_id", "step_idx", "seq_len_current", "selected_token_pos", "scores_topk"}

// checkFields reports faults that encoding/json accepts: a field that appears twice or differs in
// case, or a null in a list. It collects the other fields. text is an object of valid JSON.
func (l *jsonLine) checkFields(text []byte) error {
	members, err := jsonobject.Members(text)
	if err != nil {
		return err
	}
	for _, m := range members {
		known := slices.IndexFunc(lineFields, func(field string) bool { return strings.EqualFold(m.Name, field) })
		switch {
		case known < 0 && len(l.ignored) < mostIgnored:
			l.ignored = slice.Add(l.ignored, m.Name)
		case known < 0:
		case m.Name != lineFields[known]:
			return fmt.Errorf("field %q, expected %q", m.Name, lineFields[known])
		case m.Value[0] == '[':
			if before, _, null := bytes.Cut(m.Value, []byte("null")); null {
				return fmt.Errorf("%s[%d] is null (a NaN?), expected a number", m.Name, bytes.Count(before, []byte(",")))
			}
		}
	}
	return nil
}

// jsonCause turns an error of encoding/json into a clear message.
func jsonCause(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return typeCause(kind)
	}
	return jsonobject.Cause(err)
}

// typeCause returns an error that names the field with a value of a wrong type.
func typeCause(e *json.UnmarshalTypeError) error {
	field, want := cmp.Or(e.Field, "the value"), "a whole number that int32 holds, with neither point nor exponent"
	switch e.Type.Kind() {
	case reflect.Slice:
		want = "a list of numbers"
	case reflect.Struct:
		want = "an object"
	case reflect.Float64:
		want = "a number that a double holds"
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	}
	return fmt.Errorf("%s: found %s, expected %s", field, e.Value, want)
}
