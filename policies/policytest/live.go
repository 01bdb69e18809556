package policytest

import (
	"runtime"
	"strings"
	"sync"
)

// profiling serializes changes of runtime.MemProfileRate, which is global.
var profiling sync.Mutex

// liveBytes calls f and returns the bytes that f allocated and that are still reachable.
// It reads them from the heap profile by call stack. Allocations of other goroutines, and
// garbage from before the call, do not count. The caller keeps alive the memory to measure.
func liveBytes(f func()) int64 {
	profiling.Lock()
	defer profiling.Unlock()
	before := profiledBytes()
	rate := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = rate }()
	runtime.MemProfileRate = 1 // every allocation
	profiled(f)
	runtime.MemProfileRate = rate
	return profiledBytes() - before
}

// profiled is the frame by which profiledBytes finds the allocations to count.
//
//go:noinline
func profiled(f func()) { f() }

// profiledBytes sums the live allocations made below profiled.
func profiledBytes() (live int64) {
	for range 3 { // the profile may be two collections old (runtime.MemProfile)
		runtime.GC()
	}
	var records []runtime.MemProfileRecord
	for {
		n, ok := runtime.MemProfile(records, false)
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.MemProfileRecord, n+50)
	}
	for i := range records {
		if belowProfiled(records[i].Stack()) {
			live += records[i].InUseBytes()
		}
	}
	return live
}

// belowProfiled reports whether a call stack contains profiled.
func belowProfiled(stack []uintptr) bool {
	for frames := runtime.CallersFrames(stack); ; {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "/policytest.profiled") {
			return true
		}
		if !more {
			return false
		}
	}
}
