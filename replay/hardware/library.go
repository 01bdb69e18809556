package hardware

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/memo"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

//go:embed data
var bundled embed.FS

// DirVariable is the environment variable with the user's folder, used if no flag names one.
const DirVariable = "KVREPLAY_HARDWARE_DIR"

// Library holds all described items. The user's files replace bundled ones.
type Library struct {
	items    map[Kind]map[string]Item // by name and alias
	composed map[string]*Machine      // by name
}

// Load reads the bundled files, and then every *.yaml and *.yml file in dir if it is not empty. A
// file of dir replaces a bundled one of the same kind and name. It also takes over the aliases of
// the bundled one.
func Load(dir string) (*Library, error) {
	lib := &Library{items: map[Kind]map[string]Item{}}
	for _, k := range Kinds {
		lib.items[k] = map[string]Item{}
	}
	err := fs.WalkDir(bundled, "data", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		root, err := bundledRoot(name)
		if err != nil {
			return err
		}
		it, err := itemOf(bundledName(name), root)
		if err != nil {
			return err
		}
		return lib.add(it, nil)
	})
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return lib, lib.complete()
	}
	names, err := files.YAML(dir)
	if err != nil {
		return nil, fmt.Errorf("hardware folder: %w", err)
	}
	_, err = lib.addFiles(names)
	return lib, err
}

// bundledRoot decodes a bundled file once, because reproduce loads the library for each paper.
var bundledRoot = memo.Func(func(name string) (*yaml.Node, error) {
	text, err := bundled.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return decode(bundledName(name), text)
})

// bundledName names a bundled file in errors.
func bundledName(name string) string { return "bundled:" + strings.TrimPrefix(name, "data/") }

// complete resolves the parts of every machine.
func (lib *Library) complete() error {
	for _, it := range lib.Items(KindMachine) {
		if _, err := lib.Resolve(it); err != nil {
			return err
		}
	}
	return nil
}

// AddFiles adds files to lib, as Load does with those of a folder. It returns the items in them.
func (lib *Library) AddFiles(names []string) ([]Item, error) {
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && !info.IsDir() && !files.IsYAML(name) {
			return nil, fmt.Errorf("%s: --hardware-dir reads only *.yaml and *.yml: rename the file", name)
		}
	}
	return lib.addFiles(names)
}

func (lib *Library) addFiles(names []string) (items []Item, err error) {
	own := map[string]string{}
	for _, name := range names {
		text, err := files.ReadSmall(name)
		if err != nil {
			return nil, err
		}
		it, err := Parse(name, text)
		if err == nil {
			err = lib.add(it, own)
		}
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, lib.complete()
}

// add adds the item of a file. own holds the names that files of the same folder have taken. It is
// nil for bundled files, whose names count for all of them.
func (lib *Library) add(it Item, own map[string]string) error {
	h := it.header()
	lib.replace(it)
	for _, name := range append([]string{h.Name}, h.Aliases...) {
		key := h.Kind + " " + name
		if other, ok := own[key]; ok {
			return fmt.Errorf("%s: %s already has a description in %s: remove one", h.file, key, other)
		}
		if own != nil {
			own[key] = h.file
		} else if _, ok := lib.items[Kind(h.Kind)][name]; ok {
			return fmt.Errorf("%s: %s has two descriptions", h.file, key)
		}
		lib.items[Kind(h.Kind)][name] = it
	}
	return nil
}

// replace adds the aliases of an item to the item that replaces it.
func (lib *Library) replace(it Item) {
	h := it.header()
	items := lib.items[Kind(h.Kind)]
	if old := items[h.Name]; old != nil && old.header().Name == h.Name {
		for _, alias := range old.header().Aliases {
			if items[alias] == old {
				items[alias] = it
			}
		}
	}
}

// Names returns the names of a kind, aliases included, sorted.
func (lib *Library) Names(kind Kind) []string { return slices.Sorted(maps.Keys(lib.items[kind])) }

// Items returns the items of a kind, each once, sorted by name.
func (lib *Library) Items(kind Kind) (items []Item) {
	for _, name := range lib.Names(kind) {
		if it := lib.items[kind][name]; it.header().Name == name {
			items = append(items, it)
		}
	}
	return items
}

// Item finds the item of a kind by name or alias. Case and separators do not count.
func (lib *Library) Item(kind Kind, name string) (Item, error) {
	found := lib.match(kind, name)
	if len(found) == 1 {
		return found[0], nil
	}
	candidates := slice.Map(found, func(it Item) string { return it.header().Name })
	return nil, &names.Error{Kind: string(kind), Text: name, Candidates: candidates, Known: lib.spellings(kind)}
}

// spellings returns the names of a kind with their aliases.
func (lib *Library) spellings(kind Kind) (list []names.Name) {
	known := lib.Names(kind)
	for _, it := range lib.Items(kind) {
		name := it.header().Name
		aliases := slice.Filter(known, func(s string) bool { return s != name && lib.items[kind][s] == it })
		list = append(list, names.Name{Name: name, Aliases: aliases})
	}
	return list
}

// match returns the items of a kind that name matches, each once. A model also matches its name in
// a hub: "meta-llama/Llama-3.1-8B-Instruct" is llama-3.1-8b.
func (lib *Library) match(kind Kind, name string) (found []Item) {
	known := lib.Names(kind)
	spellings := names.Match(name, known)
	if spellings == nil && kind == KindModel {
		spellings = names.Match(hubName(name), known)
	}
	for _, s := range spellings {
		found = slice.Add(found, lib.items[kind][s])
	}
	return found
}

// hubName returns a model's name in a hub without owner, stored format and "-Instruct". A recording
// adds the format in brackets: "SmolLM2-135M-Instruct (q4)" is smollm2-135m.
func hubName(model string) string {
	model, _, _ = strings.Cut(model, " (")
	name := strings.ToLower(model[strings.LastIndex(model, "/")+1:])
	return strings.TrimSuffix(name, "-instruct")
}

// Any finds name among all kinds, machines first.
func (lib *Library) Any(name string) ([]Item, error) {
	var found []Item
	var known []names.Name
	for _, k := range Kinds {
		items := lib.match(k, name)
		if len(items) > 1 {
			_, err := lib.Item(k, name)
			return nil, err
		}
		found = append(found, items...)
		known = append(known, lib.spellings(k)...)
	}
	if found == nil {
		return nil, fmt.Errorf("%s; `kvreplay hardware list` lists them", (&names.Error{Kind: "name", Text: name, Known: known}).Short())
	}
	return found, nil
}

func get[T Item](lib *Library, kind Kind, name string) (T, error) {
	it, err := lib.Item(kind, name)
	if err != nil {
		var none T
		return none, err
	}
	return it.(T), nil
}

// GPU finds a GPU by name.
func (lib *Library) GPU(name string) (*GPU, error) { return get[*GPU](lib, KindGPU, name) }

// Link finds a link by name, or the link with the shortest name that begins so: pcie5 is pcie5-x16.
func (lib *Library) Link(name string) (*Link, error) {
	found, err := get[*Link](lib, KindLink, name)
	if err == nil {
		return found, nil
	}
	for _, it := range lib.Items(KindLink) {
		if l := it.(*Link); begins(l.Name, name) && (found == nil || len(l.Name) < len(found.Name)) {
			found, err = l, nil
		}
	}
	return found, err
}

// Drive finds a drive by name.
func (lib *Library) Drive(name string) (*Drive, error) { return get[*Drive](lib, KindDrive, name) }

// Host finds a host by name.
func (lib *Library) Host(name string) (*Host, error) { return get[*Host](lib, KindHost, name) }

// Model finds a model's shape by name.
func (lib *Library) Model(name string) (*Model, error) { return get[*Model](lib, KindModel, name) }

// Machine finds a machine by name, with its parts. It may be one of Compose.
func (lib *Library) Machine(name string) (*Machine, error) {
	if m, ok := lib.composed[name]; ok {
		return m, nil
	}
	m, err := get[*machineFile](lib, KindMachine, name)
	if err != nil {
		return nil, err
	}
	return lib.Resolve(m)
}

// Resolve looks up the parts of a machine that Parse has read.
func (lib *Library) Resolve(it Item) (*Machine, error) {
	m, ok := it.(*machineFile)
	if !ok {
		return nil, fmt.Errorf("%s is not a machine", it.header().Name)
	}
	f := &faults{file: m.file, lines: m.lines}
	gpu := part(f, lib.GPU, "gpu", m.GPU)
	link := part(f, lib.Link, "link", m.Link)
	host := part(f, lib.Host, "host", m.Host)
	drive := part(f, lib.Drive, "drive", m.Drive)
	if link != nil && m.GPUDirect.Known() && m.GPUDirect.Value > link.Bandwidth.Value {
		f.at("gpudirect", "%s exceeds the %s of link %s", m.GPUDirect.Written, link.Bandwidth.Written, link.Name)
	}
	if gpu != nil && link != nil {
		if err := link.suits(gpu); err != nil {
			f.at("link", "%w", err)
		}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return &Machine{Name: m.Name, Shown: m.Name, GPU: gpu, GPUs: int(m.GPUs.Value), Link: link, Host: host, Drive: drive, Drives: int(m.Drives.Value), GPUDirect: m.GPUDirect,
		ReadsInFlight: int(m.ReadsInFlight.Or(assumedReadsInFlight)), NetworkBandwidth: m.NetworkBandwidth}, nil
}

// part looks up a part of a machine. If it does not exist, part returns nil and notes a fault.
func part[T any](f *faults, find func(string) (*T, error), field, name string) *T {
	it, err := find(name)
	if err != nil {
		f.at(field, "names an %w", err)
		return nil
	}
	return it
}
