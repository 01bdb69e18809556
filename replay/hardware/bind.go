package hardware

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/names"
)

// binder reads the nodes of one file into structs, strictly: each key known and given
// once, each field there unless it may be missing. It collects errors with their lines.
type binder struct {
	faults
	sources  map[string]string
	defaults *Defaults
}

// fieldOptions are of the field that is read: its path, whether 0 is a value and, of
// counts, the most that makes sense.
type fieldOptions struct {
	path string
	zero bool
	most float64 // 0: no count
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
	var known []string
	for k := range b.sources {
		known = append(known, k)
	}
	b.fail(n, "%s: source %q is not among the file's sources%s", path, key, names.Nearest(key, known))
	return ""
}

// inherit fills in the file's defaults.
func (b *binder) inherit(status, source *string) {
	if b.defaults == nil {
		return
	}
	if *status == "" {
		*status = b.defaults.Status
	}
	if *source == "" {
		*source = b.defaults.Source
	}
}

// value reads a node into v, whatever it is.
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

// texts reads a map of texts.
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
			b.fail(key, "%s: %s stands twice", path, key.Value)
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

// fieldsOf lists the keys of a struct in order, those of embedded structs among them.
func fieldsOf(t reflect.Type) (fields []field) {
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" {
			most, _ := strconv.ParseFloat(f.Tag.Get("most"), 64)
			fields = append(fields, field{name, f.Index, f.Tag.Get("need") != "no", f.Tag.Get("zero") == "ok", most})
		}
	}
	return fields
}

// mapping reads a node into the struct that into points to and says whether it is one.
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
		f, ok := find(fields, key.Value)
		switch {
		case !ok:
			b.fail(key, "%s: unknown key %q%s; known: %s", orFile(path), key.Value, names.Nearest(key.Value, keysOf(fields)), strings.Join(keysOf(fields), ", "))
		case seen[key.Value]:
			b.fail(key, "%s stands twice", join(path, key.Value))
		default:
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

func find(fields []field, name string) (field, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

func keysOf(fields []field) (list []string) {
	for _, f := range fields {
		list = append(list, f.name)
	}
	return list
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}
