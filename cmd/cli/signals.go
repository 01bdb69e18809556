package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kvreplay/kvreplay/replay"
)

// stopSignals end the work in good order: Ctrl-C, kill, and a terminal that goes away.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// stoppedBy is the cause of a context that a signal ended.
type stoppedBy syscall.Signal

func (s stoppedBy) Error() string { return "stopped by " + syscall.Signal(s).String() }

// untilSignal returns a context that the first signal ends, so that what is in hand is
// drained; the second one then ends the program at once. Signals that the program was
// started to ignore (nohup) stay ignored.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	arrived := make(chan os.Signal, 1)
	for _, s := range stopSignals {
		if !signal.Ignored(s) {
			signal.Notify(arrived, s)
		}
	}
	go func() {
		select {
		case s := <-arrived:
			cancel(stoppedBy(s.(syscall.Signal)))
		case <-ctx.Done():
		}
		signal.Stop(arrived)
	}()
	return ctx, func() { cancel(nil) }
}

// unlessStopped is what f returns, or the context's error where that ends first: f, which
// looks at no context, reads or computes only, and what it has not finished is left behind.
func unlessStopped[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// exitOf is the exit code of work that ctx ended: that of shells for the signal.
func exitOf(ctx context.Context) int {
	var by stoppedBy
	if errors.As(context.Cause(ctx), &by) {
		return 128 + int(by)
	}
	return exitInterrupted
}

// interruptedText says of work that was stopped what is left of it.
func interruptedText(err error) string {
	var i *replay.Interrupted
	if errors.As(err, &i) {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted; no unfinished file is left")
}

// withAdvice says how a replay is run that can be continued.
func withAdvice(err error, out string) error {
	var i *replay.Interrupted
	if errors.As(err, &i) && out == "" {
		return fmt.Errorf("%w (--out DIR keeps finished work)", err)
	}
	return err
}
