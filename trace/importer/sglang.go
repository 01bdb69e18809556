package importer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kvreplay/kvreplay/trace"
)

// sglangResponse is the part of a response that matters.
type sglangResponse struct {
	MetaInfo *struct {
		ID         *jsonID     `json:"id"`
		Prompt     *int        `json:"prompt_tokens"`
		Completion *int        `json:"completion_tokens"`
		TopK       base64Bytes `json:"indexer_topk"`
	} `json:"meta_info"`
}

// base64Bytes are bytes that the text has so. A list of numbers, which encoding/json would take for
// bytes as well, is refused.
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

// decodeSGLang reads one or more JSON values, each a response or a list of them. Of a list
// one element is held at a time.
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

// enterOrLeave reads the bracket of a list in the file, if it is what comes next, and
// returns whether what follows is in the list.
func enterOrLeave(dec *json.Decoder, inList bool) (bool, error) {
	more := dec.More() // fills the buffer from the next byte that is no space on
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

// boundedReader fails once more than limit bytes were read for one JSON value.
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
			if err := c.add(s, &rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// check reports what a response lacks, and returns its id.
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
		return "", errors.New("meta_info has no id; name the request by --request-id")
	case m.ID == nil:
		return o.RequestID, nil
	case o.RequestID != "" && string(*m.ID) != o.RequestID:
		return "", fmt.Errorf("meta_info says id %q, but --request-id says %q", *m.ID, o.RequestID)
	}
	return string(*m.ID), nil
}

// int32At is value i of the array.
func int32At(b []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(b[4*i:])) }
