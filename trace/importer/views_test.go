package importer

import (
	"encoding/binary"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
)

// viewStream returns the beginning of an Arrow stream whose only column has a view type.
func viewStream(name string, kind byte) []byte {
	b := flatbuffers.NewBuilder(0)
	text := b.CreateString(name)
	b.StartObject(0)
	typ := b.EndObject()
	b.StartObject(7) // Field
	b.PrependUOffsetTSlot(0, text, 0)
	b.PrependByteSlot(2, kind, 0)
	b.PrependUOffsetTSlot(3, typ, 0)
	field := b.EndObject()
	b.StartVector(4, 1, 4)
	b.PrependUOffsetT(field)
	fields := b.EndVector(1)
	b.StartObject(4) // Schema
	b.PrependUOffsetTSlot(1, fields, 0)
	schema := b.EndObject()
	b.StartObject(5) // Message
	b.PrependInt16Slot(0, 4, 0)
	b.PrependByteSlot(1, 1, 0)
	b.PrependUOffsetTSlot(2, schema, 0)
	b.Finish(b.EndObject())
	meta := b.FinishedBytes()
	meta = append(meta, make([]byte, -len(meta)&7)...)
	head := binary.LittleEndian.AppendUint32([]byte{0xff, 0xff, 0xff, 0xff}, uint32(len(meta)))
	return append(head, meta...)
}

// Views are refused with the column's name and a remedy, not as damage.
func TestArrowViews(t *testing.T) {
	for name, kind := range map[string]byte{"request_id": 24, "topk_indices": 25} {
		path := write(t, t.TempDir(), "views", viewStream(name, kind))
		if err := mustFail(t, Options{}, []string{path, "column " + name + ": has a view type", "compat_level"}, path); strings.Contains(err.Error(), "damaged") {
			t.Error(err)
		}
	}
}
