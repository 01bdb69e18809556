package tracetest

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
)

// Meanwhile is a context that calls Do when it is asked for the N-th time whether it has
// ended, as readers ask before each stream.
type Meanwhile struct {
	context.Context
	N  int64
	Do func()

	asked atomic.Int64
}

// Err is that of the context inside.
func (c *Meanwhile) Err() error {
	if c.asked.Add(1) == c.N {
		c.Do()
	}
	return c.Context.Err()
}

// Asked is how often it was asked.
func (c *Meanwhile) Asked() int64 { return c.asked.Load() }

// Overwrite writes over some bytes a third into the file at path, which readers that are near
// its end have read.
func Overwrite(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt([]byte("changed"), info.Size()/3)
	}
	if err != nil {
		t.Error(err)
	}
}
