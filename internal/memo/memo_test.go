package memo

import (
	"errors"
	"testing"
)

// A key is computed once, and again after an error.
func TestFunc(t *testing.T) {
	calls := map[int]int{}
	double := Func(func(n int) (int, error) {
		if calls[n]++; n < 0 && calls[n] == 1 {
			return 0, errors.New("first call")
		}
		return 2 * n, nil
	})
	for _, n := range []int{0, 3, -1, 0, 3, -1, -1} {
		if v, err := double(n); err == nil && v != 2*n || err != nil && (n >= 0 || calls[n] > 1) {
			t.Errorf("%d gives %d, %v", n, v, err)
		}
	}
	if calls[0] != 1 || calls[3] != 1 || calls[-1] != 2 {
		t.Errorf("calls %v, expected one of 0 and 3, and two of -1", calls)
	}
}
