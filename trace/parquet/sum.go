package parquet

// sumPlain turns differences minus least into values that follow last. It returns the last value.
// Only one of the two additions per value depends on the previous value.
func sumPlain(dst *[groupValues]int32, least, last int32) int32 {
	for i := 0; i < groupValues; i += 4 {
		v := (*[4]int32)(dst[i:])
		a, b, c, d := v[0]+least, v[1]+least, v[2]+least, v[3]+least
		a += last
		b += a
		c += b
		last = c + d
		v[0], v[1], v[2], v[3] = a, b, c, last
	}
	return last
}
