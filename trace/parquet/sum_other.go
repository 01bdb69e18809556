//go:build !amd64

package parquet

func sum(dst *[groupValues]int32, least, last int32) int32 { return sumPlain(dst, least, last) }
