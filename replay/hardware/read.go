package hardware

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
)

// Parse reads one file's text. Errors name file and line, and all of them are joined.
func Parse(file string, text []byte) (Item, error) {
	root, err := decode(file, text)
	if err != nil {
		return nil, err
	}
	return itemOf(file, root)
}

func decode(file string, text []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&doc); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", file, names.OfYAML(err, text, doc))
	}
	switch err := documents.Decode(&more); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: a second document begins, expected one item per file", file, more.Line)
	case err != io.EOF:
		return nil, fmt.Errorf("%s: %w", file, names.OfYAML(err, text, doc))
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:1: expected a mapping that begins with kind: gpu, link, drive, host, model or machine", file)
	}
	return doc.Content[0], nil
}

func itemOf(file string, root *yaml.Node) (Item, error) {
	b := &binder{faults: faults{file: file, lines: map[string]int{}}}
	kind, node := b.prepare(root)
	if newItem[Kind(kind)] == nil {
		known := slice.Map(Kinds, func(k Kind) string { return string(k) })
		return nil, fmt.Errorf("%s:%d: kind %q, expected one of %s%s", file, node.Line, kind, strings.Join(known, ", "), names.Nearest(kind, known))
	}
	it := newItem[Kind(kind)]()
	b.mapping(root, it, "")
	if err := b.err(); err != nil {
		return nil, err
	}
	it.header().file, it.header().lines = file, b.lines
	it.header().checkNames(&b.faults)
	it.check(&b.faults)
	if err := b.err(); err != nil {
		return nil, err
	}
	return it, nil
}

// prepare finds the kind, and the sources and defaults that numbers refer to.
func (b *binder) prepare(root *yaml.Node) (kind string, node *yaml.Node) {
	node = root
	quiet := &binder{faults: faults{file: b.file, lines: map[string]int{}}} // the errors occur again in the full pass
	for i := 0; i+1 < len(root.Content); i += 2 {
		value := root.Content[i+1]
		switch root.Content[i].Value {
		case "kind":
			kind, node = value.Value, value
		case "sources":
			quiet.value(value, reflect.ValueOf(&b.sources).Elem(), fieldOptions{path: "sources"})
		case "defaults":
			quiet.value(value, reflect.ValueOf(&b.defaults).Elem(), fieldOptions{path: "defaults"})
		}
	}
	return kind, node
}

// binder reads the nodes of one file into structs, strictly. Each key must be known and appear
// once. Each field must exist unless it is optional. It collects errors with their lines.
type binder struct {
	faults
	sources  map[string]string
	defaults Defaults
}

// fieldOptions are the options of a field: its path, whether 0 is permitted, and the largest
// sensible count.
type fieldOptions struct {
	path string
	zero bool
	most float64 // 0 if the field is not a count
}

// bound is a type that reads its own node.
type bound interface {
	bind(b *binder, n *yaml.Node, opts fieldOptions)
}

func (b *binder) fail(n *yaml.Node, format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf("%s:%d: "+format, append([]any{b.file, n.Line}, args...)...))
}

// citation resolves a key of the file's sources.
func (b *binder) citation(n *yaml.Node, key, path string) string {
	if text, ok := b.sources[key]; ok {
		return text
	}
	known := slices.Collect(maps.Keys(b.sources))
	b.fail(n, "%s: source %q is not one of the file's sources%s", path, key, names.Nearest(key, known))
	return ""
}

// value reads a node of any kind into v.
func (b *binder) value(n *yaml.Node, v reflect.Value, opts fieldOptions) {
	if own, ok := v.Addr().Interface().(bound); ok {
		own.bind(b, n, opts)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		b.value(n, v.Elem(), opts)
	case reflect.Struct:
		b.mapping(n, v.Addr().Interface(), opts.path)
	case reflect.Slice:
		b.sequence(n, v, opts)
	case reflect.Map:
		b.texts(n, v, opts.path)
	default:
		b.scalar(n, v, opts.path)
	}
}

func (b *binder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		b.fail(n, "%s: expected a plain value", path)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		on, err := strconv.ParseBool(n.Value)
		if err != nil {
			b.fail(n, "%s: %q, expected true or false", path, n.Value)
		}
		v.SetBool(on)
	default:
		if strings.TrimSpace(n.Value) == "" {
			b.fail(n, "%s: empty", path)
		}
		v.SetString(n.Value)
	}
}

func (b *binder) sequence(n *yaml.Node, v reflect.Value, opts fieldOptions) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		b.fail(n, "%s: expected a list of at least one", opts.path)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		path := fmt.Sprintf("%s[%d]", opts.path, i)
		b.lines[path] = item.Line
		b.value(item, v.Index(i), fieldOptions{path: path, zero: opts.zero})
	}
}

func (b *binder) texts(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		b.fail(n, "%s: expected a mapping of names to texts", path)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		text := reflect.New(v.Type().Elem()).Elem()
		if v.MapIndex(reflect.ValueOf(key.Value)).IsValid() {
			b.fail(key, "%s: %s appears twice", path, key.Value)
		}
		b.scalar(value, text, path+"."+key.Value)
		v.SetMapIndex(reflect.ValueOf(key.Value), text)
	}
}

// field is one key of a struct.
type field struct {
	name     string
	index    []int
	required bool
	zero     bool
	most     float64
}

// knownFields has the fields of each reflect.Type that fieldsOf was called for.
var knownFields sync.Map

// fieldsOf lists the keys of a struct in order, including those of embedded structs.
func fieldsOf(t reflect.Type) (fields []field) {
	if known, ok := knownFields.Load(t); ok {
		return known.([]field)
	}
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" {
			most, _ := strconv.ParseFloat(f.Tag.Get("most"), 64)
			fields = append(fields, field{name, f.Index, f.Tag.Get("need") != "no", f.Tag.Get("zero") == "ok", most})
		}
	}
	knownFields.Store(t, fields)
	return fields
}

// mapping reads a node into the struct that into points to. It reports whether the node is a
// mapping.
func (b *binder) mapping(n *yaml.Node, into any, path string) bool {
	if n.Kind != yaml.MappingNode {
		b.fail(n, "%s: expected a mapping", orFile(path))
		return false
	}
	v := reflect.ValueOf(into).Elem()
	fields := fieldsOf(v.Type())
	seen := map[string]bool{}
	before := len(b.errs)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		switch {
		case at < 0:
			known := slice.Map(fields, func(f field) string { return f.name })
			b.fail(key, "%s: unknown key %q%s; known: %s", orFile(path), key.Value, names.Nearest(key.Value, known), names.Some(known))
		case seen[key.Value]:
			b.fail(key, "%s appears twice", join(path, key.Value))
		default:
			f := fields[at]
			b.lines[join(path, f.name)] = key.Line
			b.value(value, v.FieldByIndex(f.index), fieldOptions{join(path, f.name), f.zero, f.most})
		}
		seen[key.Value] = true
	}
	for _, f := range fields {
		if f.required && !seen[f.name] {
			b.fail(n, "%s is missing", join(path, f.name))
		}
	}
	return len(b.errs) == before
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func orFile(path string) string {
	return cmp.Or(path, "the file")
}

// faults collects the errors of an item, each with its file, line and field.
type faults struct {
	file  string
	lines map[string]int // lines of fields by path, "host_to_device.call.regimes[1].rate"
	errs  []error
}

// at notes an error of a field. The sentence begins with the field's path.
func (f *faults) at(path, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s:%d: %s "+format, append([]any{f.file, f.line(path), path}, args...)...))
}

// line returns the line of a field. If the file lacks the field, it is the line of its parent.
func (f *faults) line(path string) int {
	for {
		if line, ok := f.lines[path]; ok {
			return line
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return 1
		}
		path = path[:i]
	}
}

func (f *faults) err() error { return errors.Join(f.errs...) }

// atMost notes a field that exceeds another one, which limits it.
func atMost[D dimension](f *faults, field string, v *Fact[D], limit string, most *Fact[D]) {
	if v.Known() && v.Value > most.Value {
		f.at(field, "%s exceeds %s %s", v.Written, limit, most.Written)
	}
}
