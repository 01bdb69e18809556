package files

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// One call at a time is in Locked, the file stays, and errors are those of the function.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	inside, most := 0, 0
	var mu sync.Mutex
	var all sync.WaitGroup
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		inside += n
		most = max(most, inside)
	}
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := Locked(path, func() error { count(1); count(-1); return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d calls at once", most)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	own := errors.New("own")
	if err := Locked(path, func() error { return own }); !errors.Is(err, own) {
		t.Error(err)
	}
	if err := Locked(filepath.Join(path, "below"), func() error { return nil }); err == nil {
		t.Error("a lock below a file")
	}
}
