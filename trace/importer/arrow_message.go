package importer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// maxArrowMeta is the longest message metadata or footer that is read, in bytes.
const maxArrowMeta = 64 << 20

// messageReader reads the messages of an Arrow stream. Unlike the library's it
// tells the end mark from the end of the file, and looks at lengths before memory is
// taken for them.
type messageReader struct {
	r     io.Reader
	mem   memory.Allocator
	last  *ipc.Message
	ended bool // the end mark was read
}

// Retain does nothing: decodeArrowStream owns the reader.
func (m *messageReader) Retain() {}

// Release frees the last message.
func (m *messageReader) Release() {
	if m.last != nil {
		m.last.Release()
		m.last = nil
	}
}

// Message returns the next message, valid until the next call, or io.EOF at the end
// mark.
func (m *messageReader) Message() (*ipc.Message, error) {
	meta, err := m.metadata()
	if err != nil {
		return nil, err
	}
	var length int64
	if err := guard(func() error { length, err = checkMessage(meta); return err }); err != nil {
		return nil, err
	}
	body := memory.NewResizableBuffer(m.mem)
	defer body.Release()
	if length < 0 || length > 1<<40 {
		return nil, fmt.Errorf("message body of %d bytes", length)
	}
	body.Resize(int(length))
	if _, err := io.ReadFull(m.r, body.Bytes()); err != nil {
		return nil, cutOff(err)
	}
	m.Release()
	m.last = ipc.NewMessage(memory.NewBufferBytes(meta), body)
	return m.last, nil
}

// metadata reads the continuation mark, the length and the metadata.
func (m *messageReader) metadata() ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(m.r, head[:]); err != nil {
		return nil, cutOff(err)
	}
	if mark := binary.LittleEndian.Uint32(head[:]); mark != 0xffffffff {
		return nil, fmt.Errorf("message begins with %#x, expected the continuation mark 0xffffffff (streams of Arrow before 0.15 have none)", mark)
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n == 0 {
		m.ended = true
		return nil, io.EOF
	}
	if n < 8 || n > maxArrowMeta {
		return nil, fmt.Errorf("message metadata of %d bytes, expected 8 to %d", n, maxArrowMeta)
	}
	meta := make([]byte, n)
	if _, err := io.ReadFull(m.r, meta); err != nil {
		return nil, cutOff(err)
	}
	return meta, nil
}

// cutOff keeps the end of the file from looking like the end of the stream.
func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("the stream ends without its end mark: it was cut off, or its writer never closed; copy or make it again")
	}
	return err
}
