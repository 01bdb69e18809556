package hardware

import (
	"fmt"
	"regexp"
)

// Kind is the kind of item that a file describes.
type Kind string

// The kinds, as files name them.
const (
	KindGPU     Kind = "gpu"
	KindLink    Kind = "link"
	KindDrive   Kind = "drive"
	KindHost    Kind = "host"
	KindModel   Kind = "model"
	KindMachine Kind = "machine"
)

// Kinds lists them in the order of listings.
var Kinds = []Kind{KindMachine, KindGPU, KindLink, KindDrive, KindHost, KindModel}

// Header begins every file.
type Header struct {
	Kind     string            `yaml:"kind"`
	Name     string            `yaml:"name"`
	Aliases  []string          `yaml:"aliases" need:"no"`
	Title    string            `yaml:"title"`
	Note     string            `yaml:"note" need:"no"`
	Sources  map[string]string `yaml:"sources" need:"no"` // citations by the key that numbers use
	Defaults *Defaults         `yaml:"defaults" need:"no"`

	file  string
	lines map[string]int // lines of its fields by path
}

// Defaults are the status and source of numbers that do not state them.
type Defaults struct {
	Status string `yaml:"status"`
	Source string `yaml:"source"`
}

// Item is one described item.
type Item interface {
	header() *Header
	// check reports faults that units do not reveal: contradicting numbers and counts of zero.
	check(f *faults)
}

func (h *Header) header() *Header { return h }

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// checkNames refuses names that a command line could not carry.
func (h *Header) checkNames(f *faults) {
	const form = "%q, expected small letters, digits, '.', '-' and '_'"
	if !nameForm.MatchString(h.Name) {
		f.at("name", form, h.Name)
	}
	for i, name := range h.Aliases {
		if !nameForm.MatchString(name) {
			f.at(fmt.Sprintf("aliases[%d]", i), form, name)
		}
	}
}

// File returns the file that the item was read from: a path, or bundled:NAME.
func File(it Item) string { return it.header().file }

// Head returns the header that all items have.
func Head(it Item) *Header { return it.header() }

// newItem makes an empty item of each kind.
var newItem = map[Kind]func() Item{
	KindGPU:     func() Item { return new(GPU) },
	KindLink:    func() Item { return new(Link) },
	KindDrive:   func() Item { return new(Drive) },
	KindHost:    func() Item { return new(Host) },
	KindModel:   func() Item { return new(Model) },
	KindMachine: func() Item { return new(machineFile) },
}
