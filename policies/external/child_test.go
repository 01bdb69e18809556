package external

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"
)

// An answer is the content of one whole message of the expected type and length, or an error.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x05\x00\x00\x00Vabcd"), 4)
	f.Add([]byte("hello, world"), 100)
	f.Add([]byte("\x00\x00\x00\x00V"), 100)
	f.Fuzz(func(t *testing.T, sent []byte, most int) {
		most = min(max(most, 0), 1<<16)
		answer, why, err := read(bufio.NewReader(bytes.NewReader(sent)), nil, victims, most)
		if err != nil {
			if why == "" && len(sent) > 0 {
				t.Errorf("no reason is given for %q: %v", sent, err)
			}
			return
		}
		whole := append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(answer)+1)), victims), answer...)
		if len(answer) > most || !bytes.HasPrefix(sent, whole) {
			t.Errorf("%q gives the answer %q of at most %d bytes", sent, answer, most)
		}
	})
}
