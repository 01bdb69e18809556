package external

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies"
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

// A policy does not use the child of its team after all others of the team gave it back.
func TestTeamsGiveBack(t *testing.T) {
	program, err := os.Executable()
	fatal.If(t, err)
	make, _, err := parse("env 'KVREPLAY_TEST_CHILD=lru at once' " + program)
	fatal.If(t, err)
	open := func(p *Policy) *child {
		fatal.If(t, p.Reset(&policies.Scope{Blocks: 8, Capacity: 2}))
		return p.child
	}
	one, two, late, other := make().(*Policy), make().(*Policy), make().(*Policy), make().(*Policy)
	two.Share(one, nil)
	late.Share(one, nil)
	first := open(one)
	if open(two) != first || one.stream == two.stream {
		t.Error("two policies of a team have two children, or the same stream")
	}
	one.Close()
	two.Close()
	if open(other) != first {
		t.Error("the child was not given back")
	}
	if open(late) == first {
		t.Error("two policies have the same child, in the same stream")
	}
}
