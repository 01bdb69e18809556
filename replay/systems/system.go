package systems

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/pipeline"
	"github.com/kvreplay/kvreplay/replay/pipeline/operator"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

//go:embed data
var bundled embed.FS

// System is a published system, or a variant of one.
type System struct {
	// Name identifies the system. Variants are named SYSTEM/ABLATION.
	Name string `yaml:"name"`
	// Title is the system's name in tables of its paper.
	Title string `yaml:"title"`
	// Source is the paper or the code, with its section.
	Source string `yaml:"source"`
	// Select states how the system finds the entries of a step.
	Select Select `yaml:"select"`
	// Keep states which entries stay on the GPU.
	Keep Keep `yaml:"keep"`
	// Prefetch is the text of replay's --prefetch, empty for none.
	Prefetch string `yaml:"prefetch"`
	// Tiers is the text of replay's --tier, for host memory over an SSD. Empty is for hosts that hold all KV.
	// With Inclusive it keeps copies of the blocks that pass through.
	Tiers     string `yaml:"tiers"`
	Inclusive bool   `yaml:"inclusive"`
	// Entry is the form in which KV moves, as --entry of `kvreplay time`. Empty is the model's own.
	Entry string `yaml:"entry"`
	// Schedule is the schedule of `kvreplay time` with its options.
	Schedule string `yaml:"schedule"`
	// Lookup, Path and Merge are flags of `kvreplay time`. Empty is the flag's default.
	Lookup string `yaml:"lookup"`
	Path   string `yaml:"path"`
	Merge  bool   `yaml:"merge"`
	// Preempt states how requests that do not fit give up the GPU and come back.
	Preempt pipeline.Resumption `yaml:"preempt"`
	// Ablations are variants by name. Each states the keys that differ.
	Ablations map[string]yaml.Node `yaml:"ablations"`
	// Approximates lists the departures from the source.
	Approximates []string `yaml:"approximates"`
}

// Select states how a system finds the entries of a step.
type Select struct {
	// Lists is the selector of the traces that the system replays, as in quest. Empty is for systems
	// that attend to the whole context.
	Lists string `yaml:"lists"`
	// BlockTokens is the number of tokens of an index of these lists, 0 for any.
	BlockTokens int `yaml:"block_tokens"`
	// Cost is the method whose work and memory are priced, as --selection of `kvreplay time`.
	Cost string `yaml:"cost"`
}

// Keep states which entries stay on the GPU.
type Keep struct {
	// Policy evicts, or drops if it is lossy. Empty keeps all KV on the GPU, or none of it.
	Policy string `yaml:"policy"`
	// Warmup, Outliers, Clusters, Pool and BlockTokens are flags of `kvreplay replay`.
	Warmup      string `yaml:"warmup"`
	Outliers    string `yaml:"outliers"`
	Clusters    string `yaml:"clusters"`
	Pool        string `yaml:"pool"`
	BlockTokens int    `yaml:"block_tokens"`
	// Size is the choice of the capacity among those that fit: the largest (also if it is empty) or the
	// fastest.
	Size string `yaml:"size"`
	// Allocate divides the memory among layers and heads by this method of `kvreplay allocate`.
	Allocate string `yaml:"allocate"`
}

// Choices of the capacity.
const (
	largest = "largest"
	fastest = "fastest"
)

// Library holds systems by name, in the order of their files.
type Library struct{ systems []*System }

// Load reads the bundled systems, and then every *.yaml and *.yml file of the folder dir if it is not
// empty. A file of dir replaces the bundled system of its name. table has the policies.
func Load(dir string, table policies.Table) (*Library, error) {
	lib := new(Library)
	entries, err := fs.ReadDir(bundled, "data")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := bundled.ReadFile(path.Join("data", e.Name()))
		if err != nil {
			return nil, err
		}
		if _, err := lib.add("bundled:"+e.Name(), text, table); err != nil {
			return nil, err
		}
	}
	if dir == "" {
		return lib, nil
	}
	own, err := files.YAML(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of systems: %w: name a folder with a YAML file for each system", err)
	}
	fileOf := map[string]string{} // by the name of the system
	for _, name := range own {
		text, err := files.ReadSmall(name)
		if err != nil {
			return nil, err
		}
		system, err := lib.add(name, text, table)
		if err != nil {
			return nil, err
		}
		if other := fileOf[system.Name]; other != "" {
			return nil, fmt.Errorf("%s: system %s is also in %s: rename one, because a name has one file", name, system.Name, other)
		}
		fileOf[system.Name] = name
	}
	return lib, nil
}

// add adds the system of a file, or replaces the one of its name.
func (lib *Library) add(file string, text []byte, table policies.Table) (*System, error) {
	s, err := Parse(file, text, table)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(lib.systems, func(o *System) bool { return o.Name == s.Name }); i >= 0 {
		lib.systems[i] = s
		return s, nil
	}
	lib.systems = append(lib.systems, s)
	return s, nil
}

// Parse reads one file. Unknown keys, and texts that the engine does not read, are errors that name
// the file. Every ablation is checked too.
func Parse(file string, text []byte, table policies.Table) (*System, error) {
	s := new(System)
	if err := strictly(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := s.check(table); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range s.AblationNames() {
		a, err := s.Ablation(name)
		if err == nil {
			err = a.check(table)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: ablation %s: %w", file, name, err)
		}
	}
	return s, nil
}

// strictly decodes one YAML document over the present value of v.
func strictly(text []byte, v any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(v); errors.Is(err, io.EOF) {
		return errors.New("the file is empty, expected a system with name, source and schedule")
	} else if err != nil {
		return names.OfYAML(err, text, v)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("a second document begins, expected one system per file")
	}
	return nil
}

// AblationNames returns the names of the variants, sorted.
func (s *System) AblationNames() []string { return slices.Sorted(maps.Keys(s.Ablations)) }

// Ablation returns the system with the keys of an ablation in the place of its own.
func (s *System) Ablation(name string) (*System, error) {
	node, ok := s.Ablations[name]
	if !ok {
		known := "it has none"
		if list := s.AblationNames(); len(list) > 0 {
			known = "choose " + strings.Join(list, ", ")
		}
		return nil, fmt.Errorf("system %s has no ablation %q%s: %s", s.Name, name, names.Nearest(name, s.AblationNames()), known)
	}
	text, err := yaml.Marshal(&node)
	if err != nil {
		return nil, err
	}
	own := *s
	own.Ablations, own.Approximates = nil, slices.Clone(s.Approximates)
	if err := strictly(text, &own); err != nil {
		return nil, err
	}
	own.Name = s.Name + "/" + name
	return &own, nil
}

// check reads every text of the system once, so that a wrong one fails before any replay.
func (s *System) check(table policies.Table) error {
	switch {
	case s.Name == "" || s.Source == "" || s.Schedule == "":
		return errors.New("expected the keys name, source and schedule")
	case strings.ContainsAny(s.Name, ",: ") || s.Ablations != nil && strings.Contains(s.Name, "/"):
		return fmt.Errorf("name %q: expected letters, digits and -", s.Name)
	case s.Preempt != "" && !slices.Contains(pipeline.Resumptions, s.Preempt):
		return fmt.Errorf("preempt %q: expected recompute, swap, hidden or never", s.Preempt)
	case !slices.Contains([]string{"", largest, fastest}, s.Keep.Size):
		return fmt.Errorf("keep.size %q: expected %s or %s", s.Keep.Size, largest, fastest)
	case s.Select.BlockTokens < 0 || s.Keep.BlockTokens < 0:
		return errors.New("block_tokens: expected at least 0")
	case s.Inclusive && s.Tiers == "":
		return errors.New("inclusive: expected the key tiers with it")
	case s.Tiers != "" && s.Keep.Policy == "":
		return errors.New("tiers: expected the key keep.policy with it")
	}
	order, err := schedule.Parse(s.Schedule)
	if err != nil {
		return err
	}
	if schedule.AttendsDensely(order) != (s.Select.Lists == "") {
		return fmt.Errorf("schedule %s and select.lists %q: expected lists for exactly the schedules that read selected or kept entries", s.Schedule, s.Select.Lists)
	}
	if err := operator.CheckSelection(s.selection()); err != nil {
		return err
	}
	if s.Preempt != "" && s.Schedule != "dense" {
		return fmt.Errorf("preempt %s: expected schedule dense, not %s", s.Preempt, s.Schedule)
	}
	if s.Keep.Policy == "" && s.Select.Lists != "" && order.Traits().Moves != schedule.MovesNothing {
		return fmt.Errorf("schedule %s moves misses: name the policy of the cache in keep.policy, or none", s.Schedule)
	}
	if s.Keep.Policy == "" {
		return nil
	}
	_, err = s.options(table)
	return err
}

// selection is the text of the priced selection.
func (s *System) selection() string { return cmp.Or(s.Select.Cost, "auto") }

// options returns the replay of the system, without capacities.
func (s *System) options(table policies.Table) (o replay.Options, err error) {
	spec, err := table.Parse(s.Keep.Policy)
	if err != nil {
		return o, err
	}
	o.Policies, o.Workers = []policies.Spec{spec}, runtime.GOMAXPROCS(0)
	o.Shape.BlockTokens = s.Keep.BlockTokens
	err = cmp.Or(
		set(&o.Warmup, replay.ParseWarmup, s.Keep.Warmup),
		set(&o.Outliers, replay.ParseOutliers, s.Keep.Outliers),
		set(&o.Clusters, replay.ParseClusters, s.Keep.Clusters),
		set(&o.Pool, replay.ParsePool, s.Keep.Pool),
		set(&o.Prefetch, replay.ParsePrefetch, s.Prefetch),
	)
	if err != nil {
		return o, err
	}
	if s.Tiers != "" {
		tier, err := replay.ParseTier(table, s.Tiers)
		if err != nil {
			return o, err
		}
		o.Tiers, o.Inclusive = []replay.Tier{tier}, s.Inclusive
	}
	if s.Keep.Allocate == "" {
		return o, nil
	}
	if spec.Entry.Traits.Windowed {
		return o, fmt.Errorf("keep.allocate: policy %s has no capacity to divide", s.Keep.Policy)
	}
	_, err = allocate.ParseMethod(s.Keep.Allocate)
	return o, err
}

// set parses an option. An empty text leaves its default.
func set[T any](option *T, parse func(text string) (T, error), text string) (err error) {
	if text != "" {
		*option, err = parse(text)
	}
	return err
}

// All returns the systems without variants.
func (lib *Library) All() []*System { return lib.systems }

// Names returns the names of the systems.
func (lib *Library) Names() []string {
	return slice.Map(lib.systems, func(s *System) string { return s.Name })
}

// Find returns the systems that texts name: NAME, NAME/ABLATION, or all. With ablate, each system is
// followed by all of its ablations.
func (lib *Library) Find(texts []string, ablate bool) (found []*System, err error) {
	for _, text := range texts {
		name, ablation, variant := strings.Cut(text, "/")
		list := lib.systems
		if !strings.EqualFold(name, "all") {
			name, err = names.Find("system", name, names.Of(lib.Names()...))
			if err != nil {
				return nil, err
			}
			i := slices.Index(lib.Names(), name)
			list = lib.systems[i : i+1]
		}
		for _, s := range list {
			if variant {
				if s, err = s.Ablation(ablation); err != nil {
					return nil, err
				}
			}
			found = append(found, s)
			if !ablate || variant {
				continue
			}
			for _, name := range s.AblationNames() {
				a, err := s.Ablation(name)
				if err != nil {
					return nil, err
				}
				found = append(found, a)
			}
		}
	}
	for i, s := range found {
		if slices.ContainsFunc(found[:i], func(o *System) bool { return o.Name == s.Name }) {
			return nil, fmt.Errorf("system %s is named twice: name it once", s.Name)
		}
	}
	return found, nil
}
