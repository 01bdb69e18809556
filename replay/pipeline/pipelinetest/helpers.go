package pipelinetest

import (
	"math"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Near reports a number that differs from want by more than rounding.
func Near(t testing.TB, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %.12g, expected %.12g", what, got, want)
	}
}

// Schedule reads a schedule.
func Schedule(t testing.TB, text string) schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(text)
	fatal.If(t, err)
	return s
}

// Library loads the bundled machines and models.
func Library(t testing.TB) *hardware.Library {
	t.Helper()
	lib, err := hardware.Load("")
	fatal.If(t, err)
	return lib
}

// Machine returns a bundled machine.
func Machine(t testing.TB, name string) *hardware.Machine {
	t.Helper()
	m, err := Library(t).Machine(name)
	fatal.If(t, err)
	return m
}

// Model returns a bundled model.
func Model(t testing.TB, name string) *hardware.Model {
	t.Helper()
	m, err := Library(t).Model(name)
	fatal.If(t, err)
	return m
}

// Parts returns a bundled machine and a bundled model.
func Parts(t testing.TB, machine, model string) (*hardware.Machine, *hardware.Model) {
	t.Helper()
	return Machine(t, machine), Model(t, model)
}
