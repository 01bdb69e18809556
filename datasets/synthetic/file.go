package synthetic

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/names"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// mostDialBytes is the size of the largest dial file that is read.
const mostDialBytes = 4 << 20

// Presets names the presets, in alphabetical order.
func Presets() []string {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil {
		panic(err) // embedded
	}
	var list []string
	for _, e := range entries {
		list = append(list, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return list
}

// Preset returns the dials of that preset, or an error that offers the nearest.
func Preset(name string) (*Dials, error) {
	name, err := names.Find("preset", name, names.Of(Presets()...))
	if err != nil {
		return nil, err
	}
	text, err := presetFiles.ReadFile(path.Join("presets", name+".yaml"))
	if err != nil {
		panic(err) // embedded
	}
	d := Default()
	if err := d.Decode(text); err != nil {
		return nil, fmt.Errorf("preset %s: %w", name, err)
	}
	return &d, nil
}

// Read changes d by the dial file at path, YAML or JSON.
func (d *Dials) Read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read dials: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostDialBytes+1))
	if err != nil {
		return fmt.Errorf("read dials: %w", err)
	}
	if err := d.Decode(text); err != nil {
		return fmt.Errorf("read dials %s: %w", path, err)
	}
	return nil
}

// Decode changes d by what text says, YAML or JSON. What it does not name stays, except
// that a dial named for all layers has no values by layer any more, and by_layer
// replaces all that was said by layer. On an error d is as before.
func (d *Dials) Decode(text []byte) error {
	if len(text) > mostDialBytes {
		return fmt.Errorf("more than %d bytes, too many for dials", mostDialBytes)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("no dials: the text is empty; kvreplay datasets fit writes dials")
	}
	said := map[string]any{}
	if err := yaml.Load(text, &said, yaml.WithUniqueKeys()); err != nil {
		return fmt.Errorf("%w; expected dials, as `kvreplay datasets fit -o` writes them", err)
	}
	if err := checkKeys(said); err != nil {
		return err
	}
	next := d.without(said)
	if err := yaml.Load(text, &next, yaml.WithKnownFields()); err != nil {
		return err
	}
	if said["by_layer"] == nil {
		layers, heads := next.Layers, next.Heads
		next.Layers, next.Heads = d.Layers, d.Heads
		next.SetLayers(layers)
		next.SetHeads(heads)
	}
	if err := next.Validate(); err != nil {
		return err
	}
	*d = next
	return nil
}

// without returns a copy of d, less the values by layer that said replaces.
func (d *Dials) without(said map[string]any) Dials {
	next := *d
	next.ByLayer = nil
	if _, ok := said["by_layer"]; ok {
		next.LayerIDs = nil
		return next
	}
	for name, values := range d.ByLayer {
		if _, ok := said[name]; !ok {
			if next.ByLayer == nil {
				next.ByLayer = map[string]Values{}
			}
			next.ByLayer[name] = slices.Clone(values)
		}
	}
	return next
}

// checkKeys offers the nearest to an unknown key.
func checkKeys(said map[string]any) error {
	known := slices.Clone(extentKeys)
	for i := range LocalityDials {
		known = append(known, LocalityDials[i].Name)
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if !slices.Contains(known, key) {
			return fmt.Errorf("unknown key %q%s", key, names.Nearest(key, known))
		}
	}
	return nil
}

// extentKeys are the keys of a dial file besides those of LocalityDials.
var extentKeys = []string{"about", "seed", "requests", "layers", "layer_ids", "heads", "context", "steps", "windows", "topk", "sink", "local",
	"candidates", "order", "scores", "entry_bytes", "layer_spread", "head_spread", "by_layer"}

// Encode writes d as a dial file that Decode reads back.
func (d *Dials) Encode() ([]byte, error) { return yaml.Dump(d, yaml.WithIndent(2)) }

// MarshalYAML writes the values in one line.
func (v Values) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, x := range v {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: strconv.FormatFloat(x, 'g', -1, 64)})
	}
	return n, nil
}
