package allocate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// PlanSchema is the version of plan files.
const PlanSchema = 1

// Plan holds a size for each layer and head of a model. PLAN.md describes its file.
type Plan struct {
	Method string `yaml:"method"` // with options, in the form of ParseMethod
	Family Family `yaml:"family"`
	Policy string `yaml:"policy"` // policy whose curves were profiled, "window" for windows
	Units  `yaml:",inline"`
	Floor  int `yaml:"floor"` // smallest size of a stream

	Memory        string `yaml:"memory"`         // as the user stated it
	MemoryEntries int64  `yaml:"memory_entries"` // entries per request
	UsedEntries   int64  `yaml:"used_entries"`   // entries per request, on the profile
	Cost          CostOf `yaml:"cost"`           // cost of windows, empty for capacities

	Profile []Source `yaml:"profile"`
	Streams []Share  `yaml:"-"` // sorted by layer, then head
}

// Units are the settings that sizes depend on. A plan applies only to its own units.
type Units struct {
	TopK        int `yaml:"topk"`         // K in the unit of the trace's lists
	BlockTokens int `yaml:"block_tokens"` // entries of a block
	StepTokens  int `yaml:"step_tokens"`  // positions of a step
	SharedHeads int `yaml:"shared_heads"` // heads that share a cache
}

func (s Units) text() string {
	return fmt.Sprintf("topk %d, block_tokens %d, step_tokens %d, shared_heads %d", s.TopK, s.BlockTokens, s.StepTokens, s.SharedHeads)
}

// Source holds the profiled requests of a trace.
type Source struct {
	Trace    string   `yaml:"trace"`
	Digest   string   `yaml:"digest"`
	Requests []string `yaml:"requests"`
}

// Share is the size of a layer and head.
type Share struct {
	Key
	Size int // entries of a capacity, steps of a window
}

// newPlan returns a plan for the choice of a method on a profile.
func newPlan(p *Profile, s Spec, sizes []int, memory string, memoryEntries int64) (*Plan, error) {
	plan := &Plan{Method: s.Name(), Family: p.Family, Policy: p.Policy, Units: p.Units, Floor: p.Curves[0].Points[0].Size,
		Memory: memory, MemoryEntries: memoryEntries, Cost: p.Cost}
	for _, of := range byTrace(p.Requests) {
		plan.Profile = append(plan.Profile, Source{of[0].Trace, of[0].Digest, slice.Map(of, func(r Request) string { return r.ID })})
	}
	for i := range p.Curves {
		plan.Streams = append(plan.Streams, Share{p.Curves[i].Key, sizes[i]})
	}
	used, err := p.Totals(sizes)
	plan.UsedEntries = used.Memory
	return plan, err
}

// Capacity returns the capacity of a layer and head, in entries (tokens). ok is false if the plan
// lacks it or holds windows. head is trace.NoHead if the layer shares its selection.
func (p *Plan) Capacity(layer, head int32) (entries int, ok bool) {
	return p.size(Capacities, Key{layer, head})
}

// Window returns the window of a layer and head, in steps. ok is false if the plan lacks it or
// holds capacities.
func (p *Plan) Window(layer, head int32) (steps int, ok bool) {
	return p.size(Windows, Key{layer, head})
}

func (p *Plan) size(f Family, k Key) (int, bool) {
	i, ok := slices.BinarySearchFunc(p.Streams, k, func(s Share, k Key) int { return compareKeys(s.Key, k) })
	if !ok || p.Family != f {
		return 0, false
	}
	return p.Streams[i].Size, true
}

// Covers returns an error that names a difference if the plan does not fit a replay in these units
// with these layers and heads.
func (p *Plan) Covers(units Units, keys []Key) error {
	if p.Units != units {
		return fmt.Errorf("the plan is for %s, but the replay has %s: allocate again on such rows", p.Units.text(), units.text())
	}
	for _, k := range keys {
		if _, ok := p.size(p.Family, k); !ok {
			return fmt.Errorf("the plan lacks %v: it has %s", k, p.extent())
		}
	}
	return nil
}

func (p *Plan) extent() string {
	var layers []string
	heads := map[int32]bool{}
	for i, s := range p.Streams {
		if i == 0 || p.Streams[i-1].Layer != s.Layer {
			layers = append(layers, fmt.Sprint(s.Layer))
		}
		heads[s.Head] = true
	}
	if heads[trace.NoHead] && len(heads) == 1 {
		return fmt.Sprintf("layers %s without heads", names.Some(layers))
	}
	return fmt.Sprintf("layers %s with %d heads", names.Some(layers), len(heads))
}

// Digest identifies the data that a replay depends on: the family and the sizes. Plans with equal
// sizes have equal digests for any method, memory or profile.
func (p *Plan) Digest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kvreplay plan %d %s\n", PlanSchema, p.Family)
	for _, s := range p.Streams {
		fmt.Fprintf(&b, "%d %d %d\n", s.Layer, s.Head, s.Size)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(b.String())))
}

// planFile is a plan in the form of its file.
type planFile struct {
	Schema  int `yaml:"schema"`
	Plan    `yaml:",inline"`
	Streams []shareFile `yaml:"streams"`
}

type shareFile struct {
	Layer    *int32 `yaml:"layer"`
	Head     *int32 `yaml:"head"`
	Capacity *int   `yaml:"capacity_entries"`
	Window   *int   `yaml:"window"`
}

// Encode returns the plan's file. Equal plans give equal bytes.
func (p *Plan) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "schema: %d\nfamily: %s\nmethod: %q\npolicy: %q\n", PlanSchema, p.Family, p.Method, p.Policy)
	fmt.Fprintf(&b, "topk: %d\nblock_tokens: %d\nstep_tokens: %d\nshared_heads: %d\nfloor: %d\n", p.TopK, p.BlockTokens, p.StepTokens, p.SharedHeads, p.Floor)
	fmt.Fprintf(&b, "memory: %q\nmemory_entries: %d\nused_entries: %d\n", p.Memory, p.MemoryEntries, p.UsedEntries)
	size := "capacity_entries"
	if p.Family == Windows {
		size = "window"
		fmt.Fprintf(&b, "cost: %s\n", p.Cost)
	}
	b.WriteString("profile:")
	for _, s := range p.Profile {
		fmt.Fprintf(&b, "\n  - trace: %q\n    digest: %q\n    requests:", s.Trace, s.Digest)
		for _, r := range s.Requests {
			fmt.Fprintf(&b, "\n      - %q", r)
		}
		if len(s.Requests) == 0 {
			b.WriteString(" []")
		}
	}
	if len(p.Profile) == 0 {
		b.WriteString(" []")
	}
	b.WriteString("\nstreams:\n")
	for _, s := range p.Streams {
		head := ""
		if s.Head != trace.NoHead {
			head = fmt.Sprintf("head: %d, ", s.Head)
		}
		fmt.Fprintf(&b, "  - {layer: %d, %s%s: %d}\n", s.Layer, head, size, s.Size)
	}
	return b.Bytes()
}

// CheckFile returns a *files.TargetError if a file exists at path that is no plan, which Write does not
// replace.
func CheckFile(path string) error { return files.CheckKind(path, new(Plan).Encode()) }

// Write writes the plan's file whole or not at all.
func (p *Plan) Write(path string) error {
	if err := files.Write(path, p.Encode()); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// mostPlanBytes is the largest plan file that is read.
const mostPlanBytes = 16 << 20

// Read reads a plan file strictly. An unknown, repeated or missing field, another schema, or an
// impossible figure is an error that names the file. Reading stops if ctx ends.
func Read(ctx context.Context, path string) (*Plan, error) {
	text, err := files.Read(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("read plan: %w: write one with `kvreplay allocate -o`", err)
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
		return nil, fmt.Errorf("the file has more than %d bytes, expected a plan", mostPlanBytes)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("the file is empty: write one with `kvreplay allocate -o`")
	}
	var f planFile
	if err := yaml.Load(text, &f, yaml.WithKnownFields(), yaml.WithUniqueKeys()); err != nil {
		return nil, fmt.Errorf("%w: write one with `kvreplay allocate -o`", names.OfYAML(err, text, f))
	}
	if f.Schema != PlanSchema {
		return nil, fmt.Errorf("plan schema %d, this program reads schema %d: allocate again", f.Schema, PlanSchema)
	}
	p := &f.Plan
	for i := range p.Profile {
		p.Profile[i].Requests = append([]string(nil), p.Profile[i].Requests...) // nil if it is empty
	}
	p.Profile = append([]Source(nil), p.Profile...)
	for i, s := range f.Streams {
		share, err := s.share(f.Family)
		if err != nil {
			return nil, fmt.Errorf("streams[%d]: %w", i, err)
		}
		p.Streams = append(p.Streams, share)
	}
	return p, p.check()
}

// share returns the share of a stream's line, which must have exactly the fields of its family.
func (s *shareFile) share(f Family) (Share, error) {
	if s.Layer == nil {
		return Share{}, errors.New("layer is missing")
	}
	share := Share{Key: Key{*s.Layer, trace.NoHead}}
	if s.Head != nil {
		if *s.Head < 0 {
			return Share{}, fmt.Errorf("head %d is negative: remove it if the heads of the layer share a selection", *s.Head)
		}
		share.Head = *s.Head
	}
	size, other, name := s.Capacity, s.Window, "capacity_entries"
	if f == Windows {
		size, other, name = s.Window, s.Capacity, "window"
	}
	if size == nil || other != nil {
		return Share{}, fmt.Errorf("%v: a plan of family %s needs %s, and no other size, for each stream", share.Key, f, name)
	}
	share.Size = *size
	return share, nil
}

func (p *Plan) check() error {
	switch {
	case p.Family != Capacities && p.Family != Windows:
		return fmt.Errorf("family %q, expected %s or %s", p.Family, Capacities, Windows)
	case min(p.TopK, p.BlockTokens, p.StepTokens, p.SharedHeads) < 1 || p.Floor < 0:
		return fmt.Errorf("%s and floor %d: expected at least 1, and a floor of at least 0", p.Units.text(), p.Floor)
	case p.UsedEntries < 0 || p.UsedEntries > p.MemoryEntries:
		return fmt.Errorf("used_entries %d exceeds memory_entries %d, or one is negative", p.UsedEntries, p.MemoryEntries)
	case (p.Family == Windows) != (p.Cost == MeanResidents || p.Cost == PeakResidents):
		return fmt.Errorf("cost %q: expected %s or %s for a plan of windows, and none for capacities", p.Cost, MeanResidents, PeakResidents)
	case len(p.Streams) == 0:
		return errors.New("streams is missing or empty")
	}
	err := cmp.Or(checkText("method", p.Method), checkText("policy", p.Policy), checkText("memory", p.Memory))
	for i, s := range p.Profile {
		at := fmt.Sprintf("profile[%d]: ", i)
		err = cmp.Or(err, checkText(at+"trace", s.Trace), checkText(at+"digest", s.Digest))
		for _, r := range s.Requests {
			err = cmp.Or(err, checkText(at+"requests", r))
		}
	}
	return cmp.Or(err, p.checkStreams())
}

// checkText accepts one line of printable text.
func checkText(name, text string) error {
	switch {
	case text == "":
		return fmt.Errorf("%s: missing or empty", name)
	case !result.Printable(text):
		return fmt.Errorf("%s: %q is not printable UTF-8", name, text)
	}
	return nil
}

func (p *Plan) checkStreams() error {
	var sum int64
	for i, s := range p.Streams {
		switch {
		case s.Layer < 0:
			return fmt.Errorf("streams[%d]: layer %d is negative", i, s.Layer)
		case i > 0 && compareKeys(p.Streams[i-1].Key, s.Key) >= 0:
			return fmt.Errorf("streams[%d]: %v follows %v: expected each once, by layer, then head", i, s.Key, p.Streams[i-1].Key)
		case i > 0 && p.Streams[i-1].Layer == s.Layer && p.Streams[i-1].Head == trace.NoHead:
			return fmt.Errorf("streams[%d]: %v, but the layer has a stream without heads already", i, s.Key)
		case s.Size < p.Floor || s.Size > setting.MostEntries:
			return fmt.Errorf("streams[%d]: %v has size %d, expected %d (floor) to %d", i, s.Key, s.Size, p.Floor, setting.MostEntries)
		case p.Family == Capacities && (s.Size < 1 || s.Size%p.BlockTokens != 0):
			return fmt.Errorf("streams[%d]: %v may keep %d entries, expected whole blocks of %d", i, s.Key, s.Size, p.BlockTokens)
		}
		sum += int64(s.Size)
	}
	if p.Family == Capacities && sum != p.UsedEntries {
		return fmt.Errorf("used_entries %d, but the streams have %d in total", p.UsedEntries, sum)
	}
	return nil
}
