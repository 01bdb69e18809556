package operator

import (
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/kernel"
)

// Config states the operators to price.
type Config struct {
	Machine   *hardware.Machine
	Model     *hardware.Model // the part of a model that one GPU has
	Selection Selection
	Lookup    *Lookup // nil for the first of the table
	Threads   int     // of the host for lookups, 0 for 1
	// Experts is the number of GPUs that share the routed experts, each with its own batch, 0 for 1.
	Experts  int
	Exchange *Exchange // between these GPUs, nil if it takes no time
	Group    *Group    // of GPUs that divide every layer, nil for one GPU
	Engine   *Engine   // nil adds no overhead
	Dense    bool      // attention reads the whole context
}

// Basis is the kind of the times of kernels.
type Basis uint8

// The kinds.
const (
	ByRoofline    Basis = iota // arithmetic and bytes alone, or operators of another Pricer
	ByOtherGPUs                // kernels with constants that were fitted to other GPUs
	ByOwnProducts              // kernels with products that were measured on this GPU
)

// Set is the operators of a model on one GPU.
type Set struct {
	Pricer
	Basis    Basis
	roofline *Roofline
	fitted   *Fitted // nil with the roofline alone
}

// New returns the operators that a configuration states. kernels has the kernel model of the machine's
// GPU. If it is nil or returns nil, operators take the times of a Roofline.
func New(c Config, kernels kernel.Source) (*Set, error) {
	s := &Set{roofline: NewRoofline(c)}
	s.Pricer = s.roofline
	if kernels != nil {
		estimator, err := kernels(c.Machine.GPU)
		if err != nil {
			return nil, err
		}
		if estimator != nil {
			s.fitted = NewFitted(s.roofline, estimator)
			s.Pricer, s.Basis = s.fitted, ByOtherGPUs
			if estimator.Measured(kernel.Product) {
				s.Basis = ByOwnProducts
			}
		}
	}
	if c.Engine != nil {
		s.Pricer = &launched{s.Pricer, c, s.roofline}
	}
	return s, nil
}

// Replace replaces the times of operators. price gets those that the set has.
func (s *Set) Replace(price func(usual Pricer) Pricer) {
	s.Pricer, s.Basis = price(s.Pricer), ByRoofline
}

// Restore returns the seconds in which the GPU makes K and V of fetched entries. The early part needs
// no moved bytes, so it can overlap the fetch.
func (s *Set) Restore(e Entry, a Arrivals) (early, late float64) {
	early, late = e.restore(s.roofline, a)
	if s.fitted != nil {
		early += s.fitted.launches(e.kernels())
	}
	return early, late
}

// Touch returns the seconds in which a kernel reads and writes some bytes of the GPU's memory.
func (s *Set) Touch(bytes float64) float64 { return bytes / s.roofline.memory }
