package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// plainTrace returns a trace without compression, with one stream per row group. Traces of different
// seeds then have their pages at the same offsets.
func plainTrace(t *testing.T, seed uint64) []byte {
	t.Helper()
	type row struct {
		RequestID string  `parquet:"request_id"`
		LayerID   int32   `parquet:"layer_id"`
		PromptLen int32   `parquet:"prompt_len"`
		Step      int32   `parquet:"step"`
		SeqLen    int32   `parquet:"seq_len"`
		Indices   []int32 `parquet:"topk_indices,list"`
	}
	r := rand.New(rand.NewPCG(seed, 4))
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file, parquet.KeyValueMetadata("kvreplay", `{"block_tokens":1,"candidates":128,"order":"rank","topk":128,"version":1}`), parquet.MaxRowsPerRowGroup(200))
	for layer := range int32(8) {
		for step := range int32(200) {
			list := make([]int32, 128)
			for i, x := range r.Perm(256)[:128] {
				list[i] = int32(x)
			}
			if _, err := w.Write([]row{{"r", layer, 256, step, 257 + step, list}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fatal.If(t, w.Close())
	return file.Bytes()
}

// A run fails if its trace is written to while the run reads it. A new modification time alone does
// not matter.
func TestTraceChangesMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.parquet")
	before, after := plainTrace(t, 1), plainTrace(t, 2)
	for seed := uint64(3); len(after) != len(before); seed++ {
		after = plainTrace(t, seed)
	}
	run := func(meanwhile func() error) (*Result, error) {
		fatal.If(t, os.WriteFile(path, before, 0o644))
		f, err := trace.Open(path)
		fatal.If(t, err)
		defer f.Close()
		var once sync.Once
		return Run(context.Background(), f, Options{Policies: specs(t, "lru"), Capacities: capacities(t, "1.5x"), Progress: func(int) {
			once.Do(func() {
				if err := meanwhile(); err != nil {
					t.Error(err)
				}
			})
		}})
	}
	want, err := run(func() error { return nil })
	fatal.If(t, err)
	later := time.Now().Add(time.Hour)
	if got, err := run(func() error { return os.Chtimes(path, later, later) }); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("touched: %+v, %v", got, err)
	}
	for name, write := range map[string]func() error{
		"written to": func() error { return os.WriteFile(path, after, 0o644) },
		"written to, with its size and time as before": func() error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path, after, 0o644), os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
	} {
		got, err := run(write)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s: was changed while kvreplay read it", path)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
