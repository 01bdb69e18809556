package experiment

import (
	"context"
	"errors"
	"testing"
)

// A failure cancels the later calls and no earlier one. The error is that of the first call that fails,
// also if it fails last.
func TestInOrder(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, fails := range []bool{true, false} {
		cancelled := make(chan error, 1)
		_, err := inOrder(context.Background(), 3, func(ctx context.Context, i int) (int, error) {
			switch i {
			case 1:
				return 0, second
			case 2:
				<-ctx.Done() // forever, unless the second failure cancels this call
				cancelled <- ctx.Err()
				return 0, ctx.Err()
			}
			if why := <-cancelled; !errors.Is(why, context.Canceled) || ctx.Err() != nil {
				t.Errorf("the last call ends with %v, the first with %v", why, ctx.Err())
			}
			if fails {
				return 0, first
			}
			return 0, nil
		})
		if want := map[bool]error{true: first, false: second}[fails]; !errors.Is(err, want) {
			t.Errorf("%v, expected %v", err, want)
		}
	}
	squares, err := inOrder(context.Background(), 3, func(_ context.Context, i int) (int, error) { return i * i, nil })
	if err != nil || squares[2] != 4 {
		t.Error(squares, err)
	}
}
