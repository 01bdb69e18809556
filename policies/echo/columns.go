package echo

const bytes = 0x0101010101010101 // the lowest bit of each byte

// countColumns adds to columns, for each bit, the number of words of the given blocks that have it.
// It adds eight words by full adders. Each bit of the eighths then goes to a counter of 8 bits.
func countColumns(words []uint64, blocks []int32, columns *[64]uint32) {
	var eighths [8]uint64 // eight counters each: of the bits i, 8+i, 16+i …
	var ones, twos, fours uint64
	for n := 0; len(blocks) >= 8; blocks = blocks[8:] {
		b := (*[8]int32)(blocks)
		var twosA, twosB, foursA, foursB, eight uint64
		twosA, ones = add(ones, words[b[0]], words[b[1]])
		twosB, ones = add(ones, words[b[2]], words[b[3]])
		foursA, twos = add(twos, twosA, twosB)
		twosA, ones = add(ones, words[b[4]], words[b[5]])
		twosB, ones = add(ones, words[b[6]], words[b[7]])
		foursB, twos = add(twos, twosA, twosB)
		eight, fours = add(fours, foursA, foursB)
		for i := range eighths {
			eighths[i] += eight >> i & bytes
		}
		if n++; n == 255 {
			flush(&eighths, 8, columns)
			n = 0
		}
	}
	flush(&eighths, 8, columns)
	for i, carry := range [3]uint64{ones, twos, fours} {
		for c := range columns {
			columns[c] += uint32(carry >> c & 1 << i)
		}
	}
	for _, x := range blocks {
		for c := range columns {
			columns[c] += uint32(words[x] >> c & 1)
		}
	}
}

// add adds three bits at each place.
func add(a, b, c uint64) (carry, sum uint64) {
	half := a ^ b
	return a&b | half&c, half ^ c
}

// flush adds the counters to the columns by weight and clears them.
func flush(counters *[8]uint64, weight uint32, columns *[64]uint32) {
	for i, n := range counters {
		for j := range 8 {
			columns[j<<3+i] += weight * uint32(n>>(j<<3)&255)
		}
		counters[i] = 0
	}
}
