package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/parquet-go/bitpack"
)

// groupValues is the number of values that are unpacked together. A miniblock is a multiple of it.
const groupValues = 32

// maxBlockValues is the largest permitted block, as in the library.
const maxBlockValues = 1 << 16

// deltas decodes int32 values of the encoding DELTA_BINARY_PACKED in parts. The library decodes
// only whole pages, into memory of its own.
type deltas struct {
	src    []byte // the page
	at     int    // byte of src to decode next
	widths int    // byte of src with the width of the block's next miniblock
	ahead  int    // miniblocks left in the block
	width  uint   // bits per value of the open miniblock
	minis  int    // miniblocks in a block
	mini   int    // values in a miniblock
	open   int    // values left in the open miniblock
	left   int    // values left that are not in rest
	least  int32  // added to every difference of the block
	last   int32
	rest   []int32 // decoded but not taken yet, a part of group
	group  [groupValues]int32
	packed [4*groupValues + bitpack.PaddingInt32]byte // the last groups of the page
}

// begin reads the header of a page that must hold n values.
func (d *deltas) begin(src []byte, n int) error {
	var header [3]uint64 // values in a block, miniblocks in a block, values
	for i := range header {
		v, used := binary.Uvarint(src)
		if used <= 0 || v > math.MaxInt32 {
			return errors.New("delta header is cut off or out of range")
		}
		header[i], src = v, src[used:]
	}
	first, used := binary.Varint(src)
	block, minis, total := int(header[0]), int(header[1]), int(header[2])
	switch {
	case used <= 0 || first != int64(int32(first)):
		return errors.New("delta header is cut off or out of range")
	case block == 0 || block > maxBlockValues || minis == 0 || block%minis != 0 || block/minis%groupValues != 0:
		return fmt.Errorf("delta blocks of %d values in %d parts", block, minis)
	case total < n:
		return fmt.Errorf("%d delta values, expected %d", total, n)
	}
	d.src, d.at, d.ahead, d.minis, d.mini, d.open = src, used, 0, minis, block/minis, 0
	d.left, d.last, d.rest = max(total-1, 0), int32(first), d.group[:min(total, 1)]
	d.group[0] = d.last
	return nil
}

// deltaValues returns the number of values that the header of encoded values states.
func deltaValues(src []byte) (n int, ok bool) {
	for range 3 { // values in a block, miniblocks in a block, values
		v, used := binary.Uvarint(src)
		if used <= 0 || v > math.MaxInt32 {
			return 0, false
		}
		n, src = int(v), src[used:]
	}
	return n, true
}

// take decodes the next values of the page to dst.
func (d *deltas) take(dst []int32) error {
	n := copy(dst, d.rest)
	d.rest = d.rest[n:]
	for dst = dst[n:]; len(dst) >= groupValues; dst = dst[groupValues:] {
		if err := d.next((*[groupValues]int32)(dst)); err != nil {
			return err
		}
	}
	if len(dst) == 0 {
		return nil
	}
	if err := d.next(&d.group); err != nil {
		return err
	}
	d.rest = d.group[copy(dst, d.group[:]):]
	return nil
}

// next decodes a group. The last group of a page may have fewer values, and the others are then
// undefined.
func (d *deltas) next(dst *[groupValues]int32) error {
	if d.open == 0 {
		if err := d.openMiniblock(); err != nil {
			return err
		}
	}
	d.open -= groupValues
	n := min(groupValues, d.left)
	d.left -= n
	size := int(4 * d.width)
	src := d.src[d.at:]
	if cap(src) < size+bitpack.PaddingInt32 || len(src) < size {
		if 8*len(src) < n*int(d.width) {
			return errors.New("delta values are cut off")
		}
		src = d.packed[:copy(d.packed[:size], src)]
	}
	d.at = min(d.at+size, len(d.src))
	if d.width == 0 {
		clear(dst[:])
	} else {
		bitpack.Unpack(dst[:], src[:size], d.width)
	}
	d.last = sum(dst, d.least, d.last)
	return nil
}

func (d *deltas) openMiniblock() error {
	if d.ahead == 0 {
		least, used := binary.Varint(d.src[d.at:])
		widths := d.at + used
		if used <= 0 || len(d.src) < widths+d.minis {
			return errors.New("delta block is cut off")
		}
		d.least, d.widths, d.at, d.ahead = int32(least), widths, widths+d.minis, d.minis
	}
	d.width, d.open = uint(d.src[d.widths]), d.mini
	d.widths++
	d.ahead--
	if d.width > 32 {
		return fmt.Errorf("delta values of %d bits", d.width)
	}
	return nil
}
