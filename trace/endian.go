package trace

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// littleEndianMachine says whether numbers in this machine's memory are little-endian.
var littleEndianMachine = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// littleEndian returns values as little-endian bytes, 4 each: their own memory, which
// the caller only reads, or *scratch on a machine of the other order.
func littleEndian[T int32 | float32](scratch *[]byte, values []T) []byte {
	if littleEndianMachine {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
	}
	*scratch = appendLittleEndian((*scratch)[:0], values)
	return *scratch
}

// appendLittleEndian is littleEndian on any machine.
func appendLittleEndian[T int32 | float32](dst []byte, values []T) []byte {
	for _, v := range values {
		switch v := any(v).(type) {
		case int32:
			dst = binary.LittleEndian.AppendUint32(dst, uint32(v))
		case float32:
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
		}
	}
	return dst
}
