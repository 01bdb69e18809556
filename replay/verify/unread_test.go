package verify

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/trace"
)

// disk is a file whose reads begin to fail at some point.
type disk struct {
	io.ReaderAt
	broken atomic.Bool
}

func (d *disk) ReadAt(p []byte, at int64) (int, error) {
	if d.broken.Load() {
		return 0, &os.PathError{Op: "read", Path: niahPath, Err: syscall.EIO}
	}
	return d.ReaderAt.ReadAt(p, at)
}

// TestUnread checks a trace that the file system fails to read. It is not skipped as broken and
// gives no verdict on a row. The work ends, and the error names the file.
func TestUnread(t *testing.T) {
	file, err := os.Open(niahPath)
	fatal.If(t, err)
	defer file.Close()
	info, err := file.Stat()
	fatal.If(t, err)
	rows := replayed(t, niahPath, []string{"lru"}, []string{"1x"}, nil)
	d := &disk{ReaderAt: file}
	open := func() *trace.File {
		d.broken.Store(false)
		f, err := trace.OpenReader(niahPath, d, info.Size())
		fatal.If(t, err)
		return f
	}
	check := func(when string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.EIO) || !unread(err) || !strings.Contains(err.Error(), niahPath) || strings.Contains(err.Error(), "corrupt") {
			t.Errorf("%s: %v", when, err)
		}
	}
	wanted := map[string]bool{rows[0].TraceDigest: true}
	ts := &traces{open: map[string]*trace.File{}, broken: map[string]error{}, named: map[string]string{}, names: map[string][]string{}}
	f := open()
	d.broken.Store(true)
	check("looked for", ts.take(f, niahPath, wanted))
	f = open()
	ts.open, ts.broken = map[string]*trace.File{}, map[string]error{}
	fatal.If(t, ts.take(f, niahPath, wanted))
	d.broken.Store(true)
	o := Options{Policies: all.Table()}
	groups := groupByCell(rows, []int{0}, &o)
	check("replayed", groups[0].verify(context.Background(), rows, ts, &o, &Report{}))
	_, err = trace.OpenReader(niahPath, d, info.Size())
	check("opened", err)
	if unread(os.ErrNotExist) || unread(os.ErrPermission) {
		t.Error("passed over no more")
	}
}
