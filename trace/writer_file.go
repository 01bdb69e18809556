package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// fileWriter writes the Parquet file of a Writer: the bytes that the library makes of the
// same rows.
type fileWriter struct {
	*groupWriter
	to     *bufio.Writer
	offset int64 // bytes written
	footer format.FileMetaData
	chunks [][numColumns]columnChunk // of each row group, without their pages
}

func newFileWriter(to io.Writer) (*fileWriter, error) {
	empty := parquet.NewGenericWriter[fileRow](io.Discard, writerOptions()...)
	if err := empty.Close(); err != nil {
		return nil, err
	}
	return &fileWriter{groupWriter: newGroupWriter(empty.Schema()), to: bufio.NewWriter(to), footer: *empty.File().Metadata()}, nil
}

// Write appends rows of a stream, up to RowsPerWrite.
func (w *fileWriter) Write(rows []fileRow) (int, error) {
	if err := w.write(rows); err != nil {
		return 0, err
	}
	return len(rows), nil
}

// Flush writes the row group, if it has rows.
func (w *fileWriter) Flush() error {
	if w.scalars.count == 0 {
		return nil
	}
	if len(w.chunks) == parquet.MaxRowGroups {
		return parquet.ErrTooManyRowGroups
	}
	group, chunks, err := w.finish()
	if err != nil {
		return err
	}
	if w.offset == 0 {
		if err := w.put([]byte(magic)); err != nil {
			return err
		}
	}
	group.FileOffset, group.Ordinal = w.offset, int16(len(w.chunks))
	group.TotalByteSize, group.TotalCompressedSize = 0, 0
	group.Columns = make([]format.ColumnChunk, numColumns)
	for i := range chunks {
		chunk := &chunks[i]
		chunk.move(w.offset)
		for _, part := range chunk.pages {
			if err := w.put(part); err != nil {
				return err
			}
		}
		chunk.pages = nil
		group.Columns[i].MetaData = chunk.meta
		group.TotalByteSize += chunk.meta.TotalUncompressedSize
		group.TotalCompressedSize += chunk.meta.TotalCompressedSize
	}
	w.chunks = append(w.chunks, chunks)
	w.footer.RowGroups = append(w.footer.RowGroups, *group)
	w.footer.NumRows += group.NumRows
	return nil
}

// SetKeyValueMetadata adds to the file's metadata.
func (w *fileWriter) SetKeyValueMetadata(key, value string) {
	w.footer.KeyValueMetadata = append(w.footer.KeyValueMetadata, format.KeyValue{Key: key, Value: value})
}

// Close writes what is left: the last row group, the page indexes and the footer.
func (w *fileWriter) Close() error {
	if err := w.Flush(); err != nil {
		return err
	}
	err := w.eachChunk(func(to *format.ColumnChunk, c *columnChunk) (err error) {
		to.ColumnIndexOffset, to.ColumnIndexLength, err = w.encode(&c.index)
		return err
	})
	if err != nil {
		return err
	}
	err = w.eachChunk(func(to *format.ColumnChunk, c *columnChunk) (err error) {
		to.OffsetIndexOffset, to.OffsetIndexLength, err = w.encode(&c.offsets)
		return err
	})
	if err != nil {
		return err
	}
	_, length, err := w.encode(&w.footer)
	if err != nil {
		return err
	}
	if err := w.put(append(binary.LittleEndian.AppendUint32(nil, uint32(length)), magic...)); err != nil {
		return err
	}
	return w.to.Flush()
}

// eachChunk calls do with every chunk and its place in the footer.
func (w *fileWriter) eachChunk(do func(to *format.ColumnChunk, c *columnChunk) error) error {
	for g := range w.chunks {
		for i := range w.chunks[g] {
			if err := do(&w.footer.RowGroups[g].Columns[i], &w.chunks[g][i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// encode writes a structure of the format, and returns where it begins and how long it is.
func (w *fileWriter) encode(value any) (at int64, length int32, err error) {
	var data bytes.Buffer
	if err := thrift.NewEncoder(new(thrift.CompactProtocol).NewWriter(&data)).Encode(value); err != nil {
		return 0, 0, err
	}
	at = w.offset
	return at, int32(data.Len()), w.put(data.Bytes())
}

// put writes bytes.
func (w *fileWriter) put(data []byte) error {
	n, err := w.to.Write(data)
	w.offset += int64(n)
	return err
}
