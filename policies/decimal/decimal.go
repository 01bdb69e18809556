// Package decimal reads sizes exactly as they are typed. 2.3 times 100 is 230. The float product is
// 229.99…, which rounds down to 229.
package decimal

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/dustin/go-humanize"
)

// Number is a decimal of zero or more, exact. The zero value is 0.
type Number struct{ rat *big.Rat }

// Parse reads digits with at most one point among them: "2.3", ".5", "64". It rejects signs,
// exponents, hexadecimal, Inf and NaN.
func Parse(text string) (Number, error) {
	digits := strings.Replace(text, ".", "", 1)
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return Number{}, fmt.Errorf("%q is not a decimal number", text)
	}
	rat, ok := new(big.Rat).SetString(text)
	if !ok {
		return Number{}, fmt.Errorf("%q is not a decimal number", text)
	}
	return Number{rat}, nil
}

// ErrTooManyBytes rejects a size that no request has.
var ErrTooManyBytes = errors.New("expected less than 1 EiB a request")

// ParseBytes reads a size with its unit, "64MiB", below 1 EiB.
func ParseBytes(text string) (Number, error) {
	bytes, err := humanize.ParseBigBytes(text)
	switch {
	case err != nil || bytes.Sign() < 0:
		return Number{}, fmt.Errorf("%q is not a size in bytes", text)
	case bytes.BitLen() > 60:
		return Number{}, ErrTooManyBytes
	}
	return Int(bytes.Uint64()), nil
}

// Int returns a whole number.
func Int(n uint64) Number {
	return Number{new(big.Rat).SetInt(new(big.Int).SetUint64(n))}
}

func (n Number) value() *big.Rat {
	if n.rat == nil {
		return new(big.Rat)
	}
	return n.rat
}

// IsZero reports whether n is 0.
func (n Number) IsZero() bool { return n.value().Sign() == 0 }

// Compare returns a negative number if n < m, a positive one if n > m, and 0 if they are equal.
func (n Number) Compare(m Number) int { return n.value().Cmp(m.value()) }

// Times returns ⌊n × k⌋, at most math.MaxInt64. k must not be negative.
func (n Number) Times(k int) int64 { return floor(new(big.Rat).Mul(n.value(), whole(k))) }

// Over returns ⌊n ÷ k⌋, at most math.MaxInt64. k must be positive.
func (n Number) Over(k int) int64 { return floor(new(big.Rat).Quo(n.value(), whole(k))) }

func whole(k int) *big.Rat { return new(big.Rat).SetInt64(int64(k)) }

func floor(x *big.Rat) int64 {
	n := new(big.Int).Quo(x.Num(), x.Denom())
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}
