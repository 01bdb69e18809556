package trace

import (
	"slices"

	"github.com/parquet-go/parquet-go/encoding/rle"
)

// noList is the length of a row's list where the row has none (null).
const noList = -1

// levels are a page's repetition and definition levels as the file has them. The lists of
// most traces have one length, so the levels of a page are those of the page before: they
// are made again where the lengths differ.
type levels struct {
	whole                  byte     // definition level of a list's values, 1 or 2
	lengths                []int32  // what the rest is of
	repetition, definition []byte   // encoded
	count                  int      // levels of each kind
	repeated               [2]int64 // how many repetition levels are 0 and 1
	defined                [3]int64 // how many definition levels are 0, 1 and 2
	raw                    []byte
}

// of makes the levels of rows whose lists have such lengths.
func (l *levels) of(lengths []int32) (err error) {
	if slices.Equal(l.lengths, lengths) {
		return nil
	}
	l.lengths = append(l.lengths[:0], lengths...)
	l.defined, l.raw = [3]int64{}, l.raw[:0]
	for _, n := range lengths {
		level := l.definitionOf(n)
		l.raw = appendLevels(l.raw, level, max(int(n), 1))
		l.defined[level] += max(int64(n), 1)
	}
	if l.definition, err = (&rle.Encoding{BitWidth: int(l.whole)}).EncodeLevels(l.definition, l.raw); err != nil {
		return err
	}
	l.count, l.repeated = len(l.raw), [2]int64{int64(len(lengths)), int64(len(l.raw) - len(lengths))}
	l.raw = l.raw[:0]
	for _, n := range lengths {
		l.raw = append(l.raw, 0)
		l.raw = appendLevels(l.raw, 1, max(int(n), 1)-1)
	}
	l.repetition, err = (&rle.Encoding{BitWidth: 1}).EncodeLevels(l.repetition, l.raw)
	return err
}

// definitionOf is the definition level of a row with a list of n.
func (l *levels) definitionOf(n int32) byte {
	switch n {
	case noList:
		return l.whole - 2
	case 0:
		return l.whole - 1
	}
	return l.whole
}

// appendLevels appends a level n times.
func appendLevels(dst []byte, level byte, n int) []byte {
	if n == 0 {
		return dst
	}
	from := len(dst)
	dst = append(dst, level)
	for done := 1; done < n; done = len(dst) - from {
		dst = append(dst, dst[from:from+min(done, n-done)]...)
	}
	return dst
}
