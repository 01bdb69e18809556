package trace

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/trace/parquet"
)

// readDirectory builds the stream directory from the key columns, one row group at a time. It
// checks key order and seq_len.
func (f *File) readDirectory(report func(*Error) bool) error {
	if report == nil {
		var first *Error
		report = func(e *Error) bool { first = e; return false }
		if err := f.directory(report); err != nil || first == nil {
			return err
		}
		return first
	}
	err := f.directory(report)
	if err == nil {
		f.validateIndex(report)
	}
	return err
}

func (f *File) directory(report func(*Error) bool) error {
	groups := f.parquet.RowGroups()
	if len(groups) == 0 || f.parquet.NumRows() == 0 {
		return fileError(f.path, RuleFile, "has no rows, expected at least one stream")
	}
	var k keyRows
	for g := range groups {
		if groups[g].NumRows() == 0 {
			continue
		}
		f.indices += f.parquet.Metadata().RowGroups[g].Columns[f.leaves[ColIndices].Index].MetaData.NumValues
		stopped := false
		err := f.group(g, &k, func(e *Error) bool { stopped = !report(e); return !stopped })
		if err != nil || stopped {
			return err
		}
	}
	return nil
}

// group reads the key columns of row group g, checks them and adds their streams.
func (f *File) group(g int, k *keyRows, report func(*Error) bool) error {
	err := parquet.Guard(func() error { return k.read(f, g) })
	if e := AsError(err); e != nil {
		e.RowGroup = g
		return e
	}
	if err != nil {
		return &Error{Path: f.path, RowGroup: g, Row: -1, Rule: RuleFile, Err: err}
	}
	f.addGroup(g, k, report)
	return nil
}

// nullHead marks a null head in keyRows. NoHead would not differ from a stored −1.
const nullHead = math.MinInt32

// keyRows are the key columns of one row group.
type keyRows struct {
	trust                             bool // pages need no CRC
	request                           []string
	layer, head, prompt, step, seqLen []int32
}

func (k *keyRows) key(i int) Key {
	key := Key{Request: k.request[i], Layer: k.layer[i], Head: k.head[i]}
	if key.Head == nullHead {
		key.Head = NoHead
	}
	return key
}

func (k *keyRows) read(f *File, g int) error {
	n := int(f.parquet.RowGroups()[g].NumRows())
	var err error
	k.request = slices.Grow(k.request[:0], n)
	if k.request, err = f.parquet.Strings(g, f.leaves[ColRequestID], n, k.request[:0], k.trust); err != nil {
		return err
	}
	for _, c := range []struct {
		column int
		dst    *[]int32
	}{{ColLayerID, &k.layer}, {ColHead, &k.head}, {ColPromptLen, &k.prompt}, {ColStep, &k.step}, {ColSeqLen, &k.seqLen}} {
		*c.dst = slices.Grow((*c.dst)[:0], n)
		l := f.leaves[c.column]
		if l == nil { // head, the only optional key
			for range n {
				*c.dst = append(*c.dst, nullHead)
			}
			continue
		}
		var cur parquet.Cursor[int32]
		cur.Open(f.parquet, g, l)
		if k.trust {
			cur.Trust()
		}
		*c.dst, err = cur.Flat(n, *c.dst, nullHead)
		if err == nil {
			err = cur.End()
		}
		cur.Close()
		if err != nil {
			return err
		}
		if c.column == ColHead && slice.Count(*c.dst, func(v int32) bool { return v == nullHead }) != cur.Rows.Nulls {
			return fileError(f.path, RuleKey, "column %s: %d, expected 0 or more, or null", l.Name, nullHead)
		}
		if cur.Rows.Nulls > 0 && c.column != ColHead {
			return fileError(f.path, RuleSchema, "column %s: %d null values, expected none", l.Name, cur.Rows.Nulls)
		}
	}
	return nil
}

// addGroup adds the streams of row group g. It returns false if report asked to stop.
func (f *File) addGroup(g int, k *keyRows, report func(*Error) bool) bool {
	var cur *StreamInfo
	defer f.keepSteps(len(f.streams), k)
	for i := range k.step {
		key := k.key(i)
		fail := func(s *StreamInfo, rule, format string, args ...any) bool {
			return report(streamError(f.path, s, i-int(s.FirstRow), k.step[i], rule, format, args...))
		}
		if cur == nil || cur.Key != key {
			info := StreamInfo{Key: key, PromptLen: k.prompt[i], RowGroup: g, FirstRow: int64(i), FirstStep: k.step[i]}
			if n := len(f.streams); n > 0 && f.streams[n-1].Key.Compare(key) >= 0 {
				last := &f.streams[n-1]
				why := "comes after %v, expected ascending keys (request_id, layer_id, head), each stream once"
				if last.Key == key {
					why = "continues %v of the previous row group, expected whole streams in a row group"
				}
				if !fail(&info, RuleKey, why, last.Key) {
					return false
				}
			}
			if !utf8.ValidString(key.Request) && !fail(&info, RuleKey, "request_id %q, expected UTF-8 text", key.Request) {
				return false
			}
			if (key.Layer < 0 || info.PromptLen < 0) &&
				!fail(&info, RuleKey, "layer_id %d, prompt_len %d, expected none below 0", key.Layer, info.PromptLen) {
				return false
			}
			f.streams = append(f.streams, info)
			cur = &f.streams[len(f.streams)-1]
		} else {
			switch {
			case k.step[i] == cur.LastStep:
				if !fail(cur, RuleKey, "step %d appears twice, expected each (stream, step) once", k.step[i]) {
					return false
				}
			case k.step[i] < cur.LastStep:
				if !fail(cur, RuleKey, "step %d after step %d, expected ascending steps", k.step[i], cur.LastStep) {
					return false
				}
			}
			if k.prompt[i] != cur.PromptLen && !fail(cur, RuleKey, "prompt_len %d, but %d at the stream's first row", k.prompt[i], cur.PromptLen) {
				return false
			}
		}
		if h := k.head[i]; h < 0 && h != nullHead && (cur.Rows == 0 || k.head[i-1] != h) &&
			!fail(cur, RuleKey, "head %d, expected 0 or more, or null if the heads of the layer share a selection", h) {
			return false
		}
		if want := int64(k.prompt[i]) + int64(k.step[i]) + 1; (int64(k.seqLen[i]) != want || want < 1) &&
			!fail(cur, RuleSeqLen, "seq_len %d, expected prompt_len + step + 1 = %d, and at least 1", k.seqLen[i], want) {
			return false
		}
		cur.Rows++
		cur.LastStep = k.step[i]
		if k.step[i] < 0 {
			cur.Windows++
		}
	}
	return true
}

// keepSteps stores the step numbers of streams from index first on that skip steps. The steps of
// the other streams follow from their first step.
func (f *File) keepSteps(first int, k *keyRows) {
	for i := first; i < len(f.streams); i++ {
		s := &f.streams[i]
		steps := k.step[s.FirstRow : s.FirstRow+int64(s.Rows)]
		for j, step := range steps {
			if step != s.FirstStep+int32(j) {
				if f.sparse == nil {
					f.sparse = map[int][]int32{}
				}
				f.sparse[i] = append([]int32(nil), steps...)
				break
			}
		}
	}
}

func (f *File) appendSteps(dst []int32, i int) []int32 {
	if steps, ok := f.sparse[i]; ok {
		return append(dst, steps...)
	}
	for j := range f.streams[i].Rows {
		dst = append(dst, f.streams[i].FirstStep+int32(j))
	}
	return dst
}
