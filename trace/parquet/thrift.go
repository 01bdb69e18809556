package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Wire types of Thrift's compact protocol.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI64    = 6 // I16, I32 and I64 are zigzag varints
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

const thriftDepth = 32 // Parquet's footer nests 8 deep

var errThriftEnd = errors.New("ends too early")

// checkThrift walks one struct of the compact protocol. The decoder allocates any length that a
// list announces. Here a list of n elements must fit into the remaining bytes, at least one byte
// each.
func checkThrift(data []byte) error {
	_, err := skipThrift(data, thriftStruct, thriftDepth)
	return err
}

// skipThrift returns the bytes after one value of the given type.
func skipThrift(data []byte, kind byte, depth int) ([]byte, error) {
	switch {
	case depth == 0:
		return nil, fmt.Errorf("nested more than %d deep", thriftDepth)
	case kind == thriftTrue || kind == thriftFalse || kind == thriftByte:
		return skipBytes(data, 1)
	case kind > thriftByte && kind <= thriftI64:
		_, data, err := thriftUvarint(data)
		return data, err
	case kind == thriftDouble:
		return skipBytes(data, 8)
	case kind == thriftUUID:
		return skipBytes(data, 16)
	case kind == thriftBinary:
		n, data, err := thriftUvarint(data)
		if err != nil {
			return nil, err
		}
		return skipBytes(data, n)
	case kind == thriftList || kind == thriftSet:
		return skipThriftList(data, depth)
	case kind == thriftStruct:
		return skipThriftStruct(data, depth)
	}
	return nil, fmt.Errorf("value of type %d", kind)
}

func skipThriftStruct(data []byte, depth int) ([]byte, error) {
	for {
		if len(data) == 0 {
			return nil, errThriftEnd
		}
		head := data[0]
		if data = data[1:]; head == thriftStop {
			return data, nil
		}
		var err error
		if head>>4 == 0 { // the field's number follows
			if _, data, err = thriftUvarint(data); err != nil {
				return nil, err
			}
		}
		if kind := head & 15; kind != thriftTrue && kind != thriftFalse {
			if data, err = skipThrift(data, kind, depth-1); err != nil {
				return nil, err
			}
		}
	}
}

func skipThriftList(data []byte, depth int) ([]byte, error) {
	if len(data) == 0 {
		return nil, errThriftEnd
	}
	n, kind := uint64(data[0]>>4), data[0]&15
	data = data[1:]
	if n == 15 {
		var err error
		if n, data, err = thriftUvarint(data); err != nil {
			return nil, err
		}
	}
	if n > uint64(len(data)) {
		return nil, fmt.Errorf("list of %d elements in %d bytes", n, len(data))
	}
	for range n {
		var err error
		if data, err = skipThrift(data, kind, depth-1); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func skipBytes(data []byte, n uint64) ([]byte, error) {
	if n > uint64(len(data)) {
		return nil, errThriftEnd
	}
	return data[n:], nil
}

func thriftUvarint(data []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, nil, errThriftEnd
	}
	return v, data[n:], nil
}
