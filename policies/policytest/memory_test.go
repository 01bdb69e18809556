package policytest_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"
	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// The program's own policies use exactly the memory that they state, to the byte. The kit itself
// rejects only claims that are too low. echo states the memory of the option that needs most.
func TestMemoryStatedIsHeld(t *testing.T) {
	for _, entry := range all.Table() {
		if parse := entry.New; entry.Name == "echo" {
			entry.New = func(string) (func() policies.Policy, string, error) { return parse("calibrate=trees") }
		}
		checkMemory(t, entry)
	}
}

// Memory that another goroutine takes during the measurement is not the policy's.
func TestMemoryOfNeighboursIsNotHeld(t *testing.T) {
	take, taken := make(chan int), make(chan []byte)
	defer close(take)
	go func() {
		for n := range take {
			taken <- make([]byte, n)
		}
	}()
	table := all.Table()
	entry := table[slices.IndexFunc(table, func(e policies.Entry) bool { return e.Name == "2q" })]
	parse := entry.New
	var kept [][]byte
	entry.New = func(options string) (func() policies.Policy, string, error) {
		factory, canonical, err := parse(options)
		return func() policies.Policy {
			take <- (len(kept) + 1) << 20 // more each time, so that the difference of two measurements shows it
			kept = append(kept, <-taken)
			return factory()
		}, canonical, err
	}
	checkMemory(t, entry)
	runtime.KeepAlive(kept)
}

// neighboured lets another goroutine allocate at every step.
type neighboured struct {
	lru.Policy
	ask, done chan bool
}

func (p *neighboured) Update(s *policies.Step) {
	p.ask <- true
	<-p.done
	p.Policy.Update(s)
}

// Allocations of another goroutine during the measurement are not the policy's.
func TestAllocationsOfNeighboursDoNotCount(t *testing.T) {
	ask, done := make(chan bool), make(chan bool)
	defer close(ask)
	var taken []byte
	go func() {
		for range ask {
			taken = make([]byte, 100)
			done <- len(taken) > 0
		}
	}()
	for _, f := range policytest.CheckBy("Allocates", line(func() policies.Policy { return &neighboured{ask: ask, done: done} }), newLRU) {
		t.Errorf("%s: %v", f.Check, f.Err)
	}
}

// checkMemory compares the memory that an entry states with the measured memory.
func checkMemory(t *testing.T, entry policies.Entry) {
	t.Helper()
	claimed, held, err := policytest.Claimed(entry)
	if err != nil {
		t.Fatalf("%s: %v", entry.Name, err)
	}
	if claimed > held+1.5 || held > claimed+0.75 {
		t.Errorf("%s states %v B a block of the context, and holds %.2f B", entry.Name, claimed, held)
	}
}
