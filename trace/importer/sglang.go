package importer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kvreplay/kvreplay/trace"
)

// sglangResponse holds the fields of a response that are read.
type sglangResponse struct {
	MetaInfo *struct {
		ID         *jsonID     `json:"id"`
		Prompt     *int        `json:"prompt_tokens"`
		Completion *int        `json:"completion_tokens"`
		TopK       base64Bytes `json:"indexer_topk"`
	} `json:"meta_info"`
}

// base64Bytes are bytes in base64. It refuses a list of numbers, which encoding/json would also
// accept as bytes.
type base64Bytes []byte

// UnmarshalJSON accepts a string or null.
func (b *base64Bytes) UnmarshalJSON(text []byte) error {
	if text[0] != '"' && text[0] != 'n' {
		return fmt.Errorf("indexer_topk: found %.20s…, expected a text of base64, the bytes of an int32 array", text)
	}
	return json.Unmarshal(text, (*[]byte)(b))
}

// sglangResponses is one response, or lists of them to any depth.
type sglangResponses []sglangResponse

// UnmarshalJSON flattens lists.
func (l *sglangResponses) UnmarshalJSON(b []byte) error {
	if b[0] != '[' {
		var one sglangResponse
		err := json.Unmarshal(b, &one)
		*l = append((*l)[:0], one)
		return err
	}
	var lists []sglangResponses
	err := json.Unmarshal(b, &lists)
	*l = nil
	for _, list := range lists {
		*l = append(*l, list...)
	}
	return err
}

// decodeSGLang reads one or more JSON values, each a response or a list of them. It holds one list
// element in memory at a time.
func decodeSGLang(s *source, c *collector) error {
	s.unit = "response"
	r, err := s.reader()
	if err != nil {
		return err
	}
	limit := s.opts.wholeLimit()
	bounded := &boundedReader{r: r, limit: limit, left: limit}
	dec := json.NewDecoder(bounded)
	n, inList := int64(1), false
	for {
		switch opened, err := enterOrLeave(dec, inList); {
		case err != nil:
			return s.errorAt(n, "%w", sglangCause(err))
		case opened != inList:
			inList = opened
			continue
		}
		var list sglangResponses
		if err := dec.Decode(&list); err == io.EOF && !inList {
			return nil
		} else if err != nil {
			return s.errorAt(n, "%w", sglangCause(err))
		}
		bounded.left = limit
		for i := range list {
			if err := addSGLang(s, c, n, &list[i]); err != nil {
				return err
			}
			n++
		}
	}
}

// enterOrLeave reads a list bracket if it is the next token. It returns whether the next value is
// in the list.
func enterOrLeave(dec *json.Decoder, inList bool) (bool, error) {
	more := dec.More() // fills the buffer, starting at the next byte that is not white space
	var next [1]byte
	_, _ = dec.Buffered().Read(next[:])
	if inList && more || !inList && next[0] != '[' {
		return inList, nil
	}
	if _, err := dec.Token(); err != nil {
		return inList, err
	}
	return !inList, nil
}

func sglangCause(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return jsonCause(err)
	}
	return fmt.Errorf("read response: %w", jsonCause(err))
}

// boundedReader fails after more than limit bytes for one JSON value.
type boundedReader struct {
	r           io.Reader
	limit, left int64
}

// Read reads from the underlying reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the value is longer than %d bytes, a quarter of the memory budget: raise --memory", b.limit)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// addSGLang adds the steps and windows of response n.
func addSGLang(s *source, c *collector, n int64, resp *sglangResponse) error {
	id, err := resp.check(c.opts)
	if err != nil {
		return s.errorAt(n, "%w", err)
	}
	m := resp.MetaInfo
	sh, err := findShape(m.TopK, *m.Prompt, *m.Completion, c.opts.Layers, c.opts.IndexTopK)
	if err != nil {
		return s.errorAt(n, "request %q: %w", id, err)
	}
	if sh.derived {
		c.warn("%s: request %q: %d layers × index_topk %d, derived from the query at position 0", s.path, id, sh.layers, sh.topk)
	}
	c.state(s, trace.Meta{Order: trace.OrderIndex, TopK: sh.topk})
	windows := DefaultWindows
	if c.opts.Windows != nil {
		windows = *c.opts.Windows
	}
	rec := record{request: id, head: trace.NoHead, at: n}
	for position := max(0, *m.Prompt-windows); position < sh.rows; position++ {
		rec.step, rec.seqLen = int32(position-*m.Prompt), int32(position+1)
		for layer := range sh.layers {
			rec.layer = int32(layer)
			rec.indices = sh.list(rec.indices[:0], m.TopK, position, layer)
			if err := sh.whole(rec.indices, position); err != nil {
				return s.errorAt(n, "request %q: position %d, layer %d: %w", id, position, layer, err)
			}
			if err := c.add(s, &rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// check reports a missing field of a response, and returns its id.
func (r *sglangResponse) check(o *Options) (string, error) {
	m := r.MetaInfo
	switch {
	case m == nil:
		return "", errors.New("no meta_info, expected an SGLang response")
	case len(m.TopK) == 0:
		return "", errors.New("meta_info has no indexer_topk: start the server with --enable-return-indexer-topk")
	case len(m.TopK)%4 != 0:
		return "", fmt.Errorf("indexer_topk has %d bytes, expected whole int32 values", len(m.TopK))
	case m.Prompt == nil || m.Completion == nil:
		return "", errors.New("meta_info lacks prompt_tokens or completion_tokens, expected both")
	case *m.Prompt < 1 || *m.Completion < 0 || *m.Prompt > 1<<30 || *m.Completion > 1<<30:
		return "", fmt.Errorf("prompt_tokens %d, completion_tokens %d, expected 1 to 2^30 and 0 to 2^30", *m.Prompt, *m.Completion)
	case m.ID == nil && o.RequestID == "":
		return "", errors.New("meta_info has no id: name the request with --request-id")
	case m.ID == nil:
		return o.RequestID, nil
	case o.RequestID != "" && string(*m.ID) != o.RequestID:
		return "", fmt.Errorf("the id of meta_info is %q, but --request-id is %q", *m.ID, o.RequestID)
	}
	return string(*m.ID), nil
}

// int32At returns value i of the array.
func int32At(b []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(b[4*i:])) }

// shape is the shape of an indexer_topk array: rows of layers × topk.
type shape struct {
	rows, layers, topk int
	derived            bool // layers and topk were inferred from the data
}

// list appends the list of a position and layer to dst, padding included.
func (s shape) list(dst []int32, b []byte, position, layer int) []int32 {
	start := (position*s.layers + layer) * s.topk
	for i := range s.topk {
		dst = append(dst, int32At(b, start+i))
	}
	return dst
}

// whole checks that a query selects all positions up to its own, or topk of them. SGLang leaves other values
// where it did not run the indexer.
func (s shape) whole(list []int32, position int) error {
	n, most := 0, int32(-1)
	for _, x := range list {
		if x >= 0 {
			n++
		}
		most = max(most, x)
	}
	if want := min(position+1, s.topk); n != want || int(most) > position {
		return fmt.Errorf("%d tokens up to %d, expected %d up to %d: %s. It may also write nothing for a short prompt: try --windows 0", n, most, want, position, fused)
	}
	return nil
}

// fused is why selections may be no positions.
const fused = "SGLang writes slots of its cache unless SGLANG_DSA_FUSE_TOPK=0 is set"

// findShape computes the shape of an array. A server that also returns the row of the last token
// has prompt + completion rows, otherwise one less. Layers and index_topk are given, or they are 0
// and must follow from the data without doubt.
func findShape(b []byte, prompt, completion, layers, topk int) (shape, error) {
	n := len(b) / 4
	var fits []shape
	whole := false // rows
	for _, rows := range []int{prompt + completion - 1, prompt + completion} {
		if rows < prompt || rows < 1 || n%rows != 0 {
			continue
		}
		whole = n > 0
		if s, ok := split(b, rows, n/rows, layers, topk); ok {
			fits = append(fits, s)
		}
	}
	switch {
	case wide(b) && (len(fits) != 1 || fits[0].topk > 1):
		return shape{}, fmt.Errorf("indexer_topk has %d values as int32, but every second one pads an int64 (0, or −1 after −1): write the array as int32", n)
	case len(fits) == 1:
		return fits[0], contradiction(b, fits[0])
	case len(fits) > 1:
		return shape{}, fmt.Errorf("indexer_topk has %d values, which may be %d or %d rows: state both --layers and --index-topk", n, fits[0].rows, fits[1].rows)
	case !whole:
		return shape{}, fmt.Errorf("indexer_topk has %d values, no multiple of %d or %d rows (prompt_tokens %d + completion_tokens %d): it is cut off or of another response",
			n, prompt+completion-1, prompt+completion, prompt, completion)
	case layers > 0 || topk > 0:
		return shape{}, fmt.Errorf("indexer_topk has %d values, expected %d or %d rows (prompt_tokens %d + completion_tokens %d) × --layers %d × --index-topk %d (0: not stated)",
			n, prompt+completion-1, prompt+completion, prompt, completion, layers, topk)
	}
	if v, ok := stranger(b[:min(len(b), 4*(n/(prompt+completion)))]); ok {
		return shape{}, fmt.Errorf("indexer_topk has %d values in %d or %d rows, and row 0 lists %d, expected token 0 (little-endian int32, padded with −1). %s. Else state --layers or --index-topk",
			n, prompt+completion-1, prompt+completion, v, fused)
	}
	return shape{}, fmt.Errorf("indexer_topk has %d values in %d or %d rows, which do not show the number of layers: state --layers or --index-topk",
		n, prompt+completion-1, prompt+completion)
}

// wide reports whether the values look like an int64 array: after each low half follows its sign.
// Lists of several int32 differ from that. The list of the query at position 0 is 0 and padding.
func wide(b []byte) bool {
	if len(b) < 8 || len(b)%8 != 0 || int32At(b, 0) > 0 {
		return false
	}
	any := false
	for i := 0; i < len(b)/4; i += 2 {
		if int32At(b, i+1) != int32At(b, i)>>31 {
			return false
		}
		any = any || int32At(b, i) != 0
	}
	return any
}

// stranger returns a value of row 0 that is neither token 0 nor padding.
func stranger(row []byte) (int32, bool) {
	for i := range len(row) / 4 {
		if v := int32At(row, i); v != 0 && v != -1 {
			return v, true
		}
	}
	return 0, false
}

// split divides a row of per values into layers.
func split(b []byte, rows, per, layers, topk int) (shape, bool) {
	s := shape{rows: rows, layers: layers, topk: topk}
	switch {
	case layers > 0 && topk > 0:
		return s, layers*topk == per
	case layers > 0:
		s.topk = per / layers
		return s, per%layers == 0 && per > 0
	case topk > 0:
		s.layers = per / topk
		return s, per%topk == 0 && per > 0
	}
	s.layers, s.topk = readShape(b, rows, per)
	s.derived = true
	return s, s.layers > 0
}

// readShape infers the split from the data, or returns zeros. The query at position 0 can select
// only token 0. In row 0 each layer's list is therefore a single 0 followed by padding, and the
// equal distances of the zeros give the list length. A layer with an empty list there would spoil
// this. So every list must also hold min(position + 1, topk) tokens.
func readShape(b []byte, rows, per int) (layers, topk int) {
	var starts []int
	for i := range per {
		switch int32At(b, i) {
		case -1:
		case 0:
			starts = append(starts, i)
		default:
			return 0, 0
		}
	}
	if len(starts) == 0 || per%len(starts) != 0 {
		return 0, 0
	}
	s := shape{rows: rows, layers: len(starts), topk: per / len(starts)}
	for i, at := range starts {
		if at != i*s.topk {
			return 0, 0
		}
	}
	for position := range min(rows, s.topk) {
		if !s.filled(b, position) {
			return 0, 0
		}
	}
	if rows < s.topk || !s.filled(b, rows-1) {
		return 0, 0
	}
	return s.layers, s.topk
}

// filled reports whether every list of a row holds min(position + 1, topk) tokens followed by
// padding.
func (s shape) filled(b []byte, position int) bool {
	for layer := range s.layers {
		start := (position*s.layers + layer) * s.topk
		for i := range s.topk {
			if (int32At(b, start+i) >= 0) != (i <= position) {
				return false
			}
		}
	}
	return true
}

// contradiction reports a stated split that does not fit the data.
func contradiction(b []byte, s shape) error {
	per := s.layers * s.topk
	layers, topk := readShape(b, s.rows, per)
	if layers != 0 && layers != s.layers {
		return fmt.Errorf("indexer_topk has %d layers × index_topk %d at position 0, but --layers and --index-topk state %d × %d", layers, topk, s.layers, s.topk)
	}
	return nil
}
