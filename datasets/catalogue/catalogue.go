// Package catalogue lists everything that kvreplay has or can make: bundled traces, workloads,
// synthetic traces and traces of requests. Each has a licence, an origin, sizes, digests and the
// commands that make it again. catalogue.yaml is the list. README.md says how to add to it.
package catalogue

import (
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/names"
)

//go:embed catalogue.yaml
var source []byte

// Kind is the kind of an entry.
type Kind string

// The kinds, in the order of the catalogue.
const (
	Trace     Kind = "trace"     // recorded selections, bundled
	Workload  Kind = "workload"  // prompts for captures
	Synthetic Kind = "synthetic" // selections drawn from a law
	Requests  Kind = "requests"  // arrivals, lengths and prefixes
)

var kinds = []Kind{Trace, Workload, Synthetic, Requests}

// Entry is one item that kvreplay has or can make.
type Entry struct {
	Name    string   `yaml:"name" json:"name"`
	Kind    Kind     `yaml:"kind" json:"kind"`
	What    string   `yaml:"what" json:"what"`
	Licence string   `yaml:"licence" json:"licence"` // SPDX expression, with words if it does not suffice
	Origin  string   `yaml:"origin" json:"origin"`   // URL: the model, benchmark, paper or data set
	Bundled string   `yaml:"bundled" json:"bundled"` // folder of its files in a checkout. Empty if not bundled
	Files   []File   `yaml:"files" json:"files"`     // empty if they depend on options
	Sources []Source `yaml:"sources" json:"sources"` // files that the commands read
	Make    []string `yaml:"make" json:"make"`       // commands, from an empty folder with the sources in SRC
	Note    string   `yaml:"note" json:"note"`
}

// File is a file with fixed content.
type File struct {
	Name   string `yaml:"name" json:"name"`
	Bytes  int64  `yaml:"bytes" json:"bytes"`
	SHA256 string `yaml:"sha256" json:"sha256"` // 64 hexadecimal digits
	Digest string `yaml:"digest" json:"digest"` // of a trace's content (trace/FORMAT.md), sha256:…, otherwise empty
}

// Source is an input of an entry that is not bundled.
type Source struct {
	Name   string `yaml:"name" json:"name"`
	SHA256 string `yaml:"sha256" json:"sha256"` // empty if any version will do
	Origin string `yaml:"origin" json:"origin"` // where to get it. Empty if it is not published
}

var all = sync.OnceValue(func() []Entry {
	entries, err := Parse(source)
	if err != nil {
		panic(err) // the file is compiled in, and tested
	}
	return entries
})

// All returns the entries in their order. Callers must not change them.
func All() []Entry { return all() }

// Find returns the entry of a name, in any case. A part before a slash may be left out if only one
// entry ends with the rest. For an unknown name the error offers the nearest name.
func Find(name string) (*Entry, error) {
	entries := All()
	known := make([]names.Name, len(entries))
	for i, e := range entries {
		known[i].Name = e.Name
		if at := strings.Index(e.Name, "/"); at >= 0 {
			known[i].Aliases = []string{e.Name[at+1:]}
		}
	}
	found, err := names.Find("entry", name, known)
	if e, ok := errors.AsType[*names.Error](err); ok {
		return nil, fmt.Errorf("%s (`kvreplay datasets list` lists the names)", e.Short())
	}
	return &entries[slices.IndexFunc(entries, func(e Entry) bool { return e.Name == found })], nil
}

// Parse reads a catalogue: a YAML list of entries. Unknown keys, missing keys and repeated names
// are errors.
func Parse(text []byte) ([]Entry, error) {
	var entries []Entry
	if err := yaml.Load(text, &entries, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	names, files, last := map[string]bool{}, map[string]string{}, 0
	for i := range entries {
		e := &entries[i]
		if err := e.validate(); err != nil {
			return nil, fmt.Errorf("read catalogue: entry %d, %q: %w", i+1, e.Name, err)
		}
		kind := slices.Index(kinds, e.Kind)
		if names[e.Name] || kind < last {
			return nil, fmt.Errorf("read catalogue: entry %d, %q: expected a unique name, and kinds in the order %v", i+1, e.Name, kinds)
		}
		names[e.Name], last = true, kind
		for _, f := range e.Files {
			if other, ok := files[f.Name]; ok {
				return nil, fmt.Errorf("read catalogue: %q and %q both have the file %s", other, e.Name, f.Name)
			}
			files[f.Name] = e.Name
		}
		if e.Files == nil { // JSON has empty lists
			e.Files = []File{}
		}
		if e.Sources == nil {
			e.Sources = []Source{}
		}
	}
	return entries, nil
}

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9._-]+)?$`)
	fileForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

func (e *Entry) validate() error {
	switch {
	case !nameForm.MatchString(e.Name):
		return errors.New("expected a name of a-z, 0-9, . _ - with at most one slash")
	case !slices.Contains(kinds, e.Kind):
		return fmt.Errorf("kind %q, expected one of %v", e.Kind, kinds)
	case e.What == "" || e.Licence == "" || len(e.Make) == 0:
		return errors.New("what, licence and make: expected all of them")
	case strings.Contains(e.What, "\n"):
		return errors.New("what: expected one line")
	case (e.Bundled != "") != (e.Kind == Trace) || e.Bundled != "" && path.Dir(e.Bundled) != "datasets":
		return errors.New("bundled: expected datasets/FOLDER, and only for traces")
	case e.Bundled != "" && len(e.Files) == 0:
		return errors.New("files: expected at least one for a bundled entry")
	}
	if u, err := url.Parse(e.Origin); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("origin %q, expected an https URL", e.Origin)
	}
	for _, f := range e.Files {
		if err := f.validate(e.Kind == Trace); err != nil {
			return fmt.Errorf("file %q: %w", f.Name, err)
		}
	}
	for _, s := range e.Sources {
		if s.Name == "" || s.SHA256 != "" && !isSHA256(s.SHA256) {
			return fmt.Errorf("source %q: expected a name, and a SHA-256 or none", s.Name)
		}
	}
	return nil
}

func (f *File) validate(isTrace bool) error {
	switch {
	case !fileForm.MatchString(f.Name):
		return errors.New("expected a file's name without a folder")
	case f.Bytes <= 0:
		return fmt.Errorf("bytes: %d, expected the size of the file", f.Bytes)
	case !isSHA256(f.SHA256):
		return fmt.Errorf("sha256: %q, expected 64 hexadecimal digits", f.SHA256)
	case f.Digest != "" && !digestForm.MatchString(f.Digest), isTrace && f.Digest == "":
		return fmt.Errorf("digest: %q, expected sha256: and 64 hexadecimal digits, as `kvreplay validate` prints it", f.Digest)
	}
	return nil
}

func isSHA256(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == 32 && strings.ToLower(text) == text
}
