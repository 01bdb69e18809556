package tokens

import (
	"fmt"
	"strconv"
	"strings"
)

// decoder turns the texts of tokens into others.
type decoder func([]string) []string

// readDecoder reads how tokens become text again. Byte-level tokens are joined.
func (t *bpe) readDecoder(file *hfFile) (err error) {
	if file.Decoder != nil && !t.byteLevel {
		t.decoders, err = decoders(file.Decoder)
	}
	return err
}

func decoders(p *hfPart) ([]decoder, error) {
	switch p.Type {
	case "Sequence":
		var list []decoder
		for i := range p.Decoders {
			steps, err := decoders(&p.Decoders[i])
			if err != nil {
				return nil, err
			}
			list = append(list, steps...)
		}
		return list, nil
	case "Fuse":
		return []decoder{func(list []string) []string { return []string{strings.Join(list, "")} }}, nil
	case "ByteFallback":
		return []decoder{func(list []string) []string { return mapped(list, fallbackByte) }}, nil
	case "Replace":
		replace, err := replacer(p)
		if err != nil {
			return nil, err
		}
		return []decoder{func(list []string) []string { return mapped(list, replace) }}, nil
	case "Strip":
		return []decoder{func(list []string) []string {
			return mapped(list, func(s string) string { return stripped(s, p.Content, p.Start, p.Stop) })
		}}, nil
	case "Metaspace":
		return []decoder{func(list []string) []string { return metaspaceText(list, p) }}, nil
	}
	return nil, fmt.Errorf("decoder %q is not read; ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace and Sequence are", p.Type)
}

func mapped(list []string, f func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

// fallbackByte is the byte that <0x0A> stands for; other tokens stay.
func fallbackByte(token string) string {
	if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return string([]byte{byte(b)})
		}
	}
	return token
}

// stripped takes up to start and stop copies of content off the ends.
func stripped(s, content string, start, stop int) string {
	for range start {
		s = strings.TrimPrefix(s, content)
	}
	for range stop {
		s = strings.TrimSuffix(s, content)
	}
	return s
}

// metaspaceText writes spaces again, save the one that was put in front.
func metaspaceText(list []string, p *hfPart) []string {
	out := mapped(list, func(s string) string { return strings.ReplaceAll(s, p.Replacement, " ") })
	if never := p.PrependScheme == "never" || p.PrependScheme == "" && !isSet(p.AddPrefixSpace); len(out) > 0 && !never {
		out[0] = strings.TrimPrefix(out[0], " ")
	}
	return out
}

// Decode implements Tokenizer. Added tokens are decoded to their text.
func (t *bpe) Decode(ids []int) (string, error) {
	list := make([]string, len(ids))
	for i, id := range ids {
		text, ok := t.texts[id]
		if !ok {
			return "", fmt.Errorf("decode by %s: it has no token %d", t.name, id)
		}
		list[i] = text
	}
	for _, decode := range t.decoders {
		list = decode(list)
	}
	return strings.Join(list, ""), nil
}
