package allocate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/trace"
)

// planFile is a plan as its file has it; PLAN.md describes the fields.
type planFile struct {
	Schema        int          `yaml:"schema"`
	Family        Family       `yaml:"family"`
	Method        string       `yaml:"method"`
	Policy        string       `yaml:"policy"`
	TopK          int          `yaml:"topk"`
	BlockTokens   int          `yaml:"block_tokens"`
	StepTokens    int          `yaml:"step_tokens"`
	SharedHeads   int          `yaml:"shared_heads"`
	Floor         int          `yaml:"floor"`
	Memory        string       `yaml:"memory"`
	MemoryEntries int64        `yaml:"memory_entries"`
	UsedEntries   int64        `yaml:"used_entries"`
	Cost          CostOf       `yaml:"cost"`
	Profile       []sourceFile `yaml:"profile"`
	Streams       []shareFile  `yaml:"streams"`
}

type sourceFile struct {
	Trace    string   `yaml:"trace"`
	Digest   string   `yaml:"digest"`
	Requests []string `yaml:"requests"`
}

type shareFile struct {
	Layer    *int32 `yaml:"layer"`
	Head     *int32 `yaml:"head"`
	Capacity *int   `yaml:"capacity_entries"`
	Window   *int   `yaml:"window"`
}

// mostPlanBytes is the largest plan file that is read.
const mostPlanBytes = 16 << 20

// Read reads a plan file, strictly: an unknown, repeated or missing field, another
// schema, and figures that cannot be true are errors that name the file.
func Read(path string) (*Plan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostPlanBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	p, err := Decode(text)
	if err != nil {
		return nil, fmt.Errorf("read plan %s: %w", path, err)
	}
	return p, nil
}

// Decode reads a plan as Read does.
func Decode(text []byte) (*Plan, error) {
	if len(text) > mostPlanBytes {
		return nil, fmt.Errorf("the file has more than %d bytes; it is no plan", mostPlanBytes)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("it is empty; `kvreplay allocate -o` writes plans")
	}
	var f planFile
	if err := yaml.Load(text, &f, yaml.WithKnownFields(), yaml.WithUniqueKeys()); err != nil {
		return nil, fmt.Errorf("%w; expected a plan, as `kvreplay allocate -o` writes it", names.OfFields(err, f))
	}
	if f.Schema != PlanSchema {
		return nil, fmt.Errorf("plan schema %d, this program reads schema %d", f.Schema, PlanSchema)
	}
	p := &Plan{Method: f.Method, Family: f.Family, Policy: f.Policy, Floor: f.Floor,
		Setting: Setting{f.TopK, f.BlockTokens, f.StepTokens, f.SharedHeads}, Memory: f.Memory, MemoryEntries: f.MemoryEntries, UsedEntries: f.UsedEntries, Cost: f.Cost}
	for _, s := range f.Profile {
		p.Profile = append(p.Profile, Source{s.Trace, s.Digest, append([]string(nil), s.Requests...)})
	}
	for i, s := range f.Streams {
		share, err := s.share(f.Family)
		if err != nil {
			return nil, fmt.Errorf("streams[%d]: %w", i, err)
		}
		p.Streams = append(p.Streams, share)
	}
	return p, p.check()
}

// share is the stream's line with exactly the fields of its family.
func (s *shareFile) share(f Family) (Share, error) {
	if s.Layer == nil {
		return Share{}, errors.New("layer is missing")
	}
	share := Share{Key: Key{*s.Layer, trace.NoHead}}
	if s.Head != nil {
		if *s.Head < 0 {
			return Share{}, fmt.Errorf("head %d; leave it out where the layer shares its selection", *s.Head)
		}
		share.Head = *s.Head
	}
	size, other, name := s.Capacity, s.Window, "capacity_entries"
	if f == Windows {
		size, other, name = s.Window, s.Capacity, "window"
	}
	if size == nil || other != nil {
		return Share{}, fmt.Errorf("%v: a plan of family %s has %s, and nothing else, for each stream", share.Key, f, name)
	}
	share.Size = *size
	return share, nil
}

// check says whether a plan can be true.
func (p *Plan) check() error {
	switch {
	case p.Family != Capacities && p.Family != Windows:
		return fmt.Errorf("family %q, expected %s or %s", p.Family, Capacities, Windows)
	case min(p.TopK, p.BlockTokens, p.StepTokens, p.SharedHeads) < 1 || p.Floor < 0:
		return fmt.Errorf("%s, floor %d; expected at least 1, and 0", p.Setting.text(), p.Floor)
	case p.UsedEntries < 0 || p.UsedEntries > p.MemoryEntries:
		return fmt.Errorf("used_entries %d exceeds memory_entries %d, or one is negative", p.UsedEntries, p.MemoryEntries)
	case (p.Family == Windows) != (p.Cost == MeanResidents || p.Cost == PeakResidents):
		return fmt.Errorf("cost %q: a plan of windows states %s or %s, one of capacities nothing", p.Cost, MeanResidents, PeakResidents)
	case len(p.Streams) == 0:
		return errors.New("streams is missing or empty")
	}
	for _, f := range []struct{ name, text string }{{"method", p.Method}, {"policy", p.Policy}, {"memory", p.Memory}} {
		if err := checkText(f.text); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return errors.Join(p.checkProfile(), p.checkStreams())
}

// checkText takes one line of printable text.
func checkText(s string) error {
	if s == "" {
		return errors.New("missing or empty")
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return fmt.Errorf("%q is not printable UTF-8", s)
		}
	}
	return nil
}

func (p *Plan) checkProfile() error {
	for i, s := range p.Profile {
		if err := errors.Join(checkText(s.Trace), checkText(s.Digest)); err != nil {
			return fmt.Errorf("profile[%d]: trace and digest: %w", i, err)
		}
		for _, r := range s.Requests {
			if err := checkText(r); err != nil {
				return fmt.Errorf("profile[%d]: requests: %w", i, err)
			}
		}
	}
	return nil
}

func (p *Plan) checkStreams() error {
	var sum int64
	for i, s := range p.Streams {
		switch {
		case s.Layer < 0:
			return fmt.Errorf("streams[%d]: layer %d", i, s.Layer)
		case i > 0 && compareKeys(p.Streams[i-1].Key, s.Key) >= 0:
			return fmt.Errorf("streams[%d]: %v after %v; expected each once, by layer, then head", i, s.Key, p.Streams[i-1].Key)
		case i > 0 && p.Streams[i-1].Layer == s.Layer && p.Streams[i-1].Head == trace.NoHead:
			return fmt.Errorf("streams[%d]: %v, but the layer stands without heads before", i, s.Key)
		case s.Size < p.Floor || s.Size > MostEntries:
			return fmt.Errorf("streams[%d]: %v has size %d, expected %d (floor) to %d", i, s.Key, s.Size, p.Floor, MostEntries)
		case p.Family == Capacities && (s.Size < 1 || s.Size%p.BlockTokens != 0):
			return fmt.Errorf("streams[%d]: %v may keep %d entries, expected whole blocks of %d", i, s.Key, s.Size, p.BlockTokens)
		}
		sum += int64(s.Size)
	}
	if p.Family == Capacities && sum != p.UsedEntries {
		return fmt.Errorf("used_entries %d, but the streams have %d in all", p.UsedEntries, sum)
	}
	return nil
}
