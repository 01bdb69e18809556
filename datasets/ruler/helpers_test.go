package ruler

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/datasets/tokens"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// counter is the default tokenizer.
var counter = sync.OnceValue(func() tokens.Tokenizer {
	t, err := tokens.Open("")
	if err != nil {
		panic(err)
	}
	return t
})

// options returns options for some tasks at one length.
func options(length, samples int, tasks ...string) Options {
	return Options{Tasks: tasks, Lengths: []int{length}, Samples: samples, Seed: 42, Tokenizer: counter()}
}

// mustMake returns the rows of some options.
func mustMake(t *testing.T, o Options) (rows []*prompts.Row, m *prompts.Manifest) {
	t.Helper()
	m, err := Make(context.Background(), o, func(r *prompts.Row) error {
		rows = append(rows, r)
		return nil
	})
	fatal.If(t, err)
	return rows, m
}

// loaded is a maker with all texts, and taskNamed one of its tasks.
func loaded(t testing.TB, o Options) *maker {
	t.Helper()
	m := newMaker(o, nil)
	fatal.If(t, m.load(context.Background(), tasks))
	return m
}

func taskNamed(name string) task {
	list, err := resolve([]string{name})
	if err != nil {
		panic(err)
	}
	return list[0]
}

// between returns the text between two texts. It searches for the first from the end.
func between(t *testing.T, text, before, after string) string {
	t.Helper()
	i := strings.LastIndex(text, before)
	if i < 0 {
		t.Fatalf("%q is not in the prompt", before)
	}
	text = text[i+len(before):]
	if i = strings.Index(text, after); i < 0 {
		t.Fatalf("%q is not in the prompt", after)
	}
	return text[:i]
}
