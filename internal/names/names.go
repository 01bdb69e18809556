// Package names finds the machine, policy or field that a user names.
//
// Letter case and the separators "-", "_", "." and space do not count, so "S3FIFO" is "s3-fifo". A
// name that is spelled exactly always wins. An unknown name is an error that offers the nearest
// names.
package names

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/slice"
)

// Name is a name and its other spellings. Several names may share an alias, which is then
// ambiguous.
type Name struct {
	Name    string
	Aliases []string
}

// Of returns names without aliases.
func Of(list ...string) []Name {
	return slice.Map(list, func(name string) Name { return Name{Name: name} })
}

// List returns the names themselves, without aliases.
func List(known []Name) []string {
	return slice.Map(known, func(n Name) string { return n.Name })
}

// WithAliases returns the names for a listing, each as "name (alias, alias)".
func WithAliases(known []Name) []string {
	list := List(known)
	for i, n := range known {
		if len(n.Aliases) > 0 {
			list[i] += " (" + strings.Join(n.Aliases, ", ") + ")"
		}
	}
	return list
}

// Error reports why Find found no name or more than one.
type Error struct {
	Kind       string // kind of the name: "policy"
	Text       string // as the user wrote it
	Candidates []string
	Known      []Name
}

// listings are the commands that list all names of a kind.
var listings = map[string]string{
	"policy":  "kvreplay policies",
	"machine": "kvreplay hardware list", "model": "kvreplay hardware list", "gpu": "kvreplay hardware list",
	"link": "kvreplay hardware list", "drive": "kvreplay hardware list", "host": "kvreplay hardware list",
	"set":      "kvreplay datasets make longbench --help",
	"schedule": "kvreplay time --help-all", "selection": "kvreplay time --help-all",
}

// Error offers the candidates of an ambiguous name. For an unknown name it offers the nearest ones
// and lists some, with the command that lists all.
func (e *Error) Error() string {
	if len(e.Candidates) > 0 {
		return e.Short()
	}
	text := fmt.Sprintf("%s; known: %s", e.Short(), Some(List(e.Known)))
	if all := listings[e.Kind]; all != "" && len(e.Known) > most {
		text += " (`" + all + "`)"
	}
	return text
}

// Short is Error without the list of all names.
func (e *Error) Short() string {
	if len(e.Candidates) > 0 {
		return fmt.Sprintf("%s %q is ambiguous, did you mean %s?", e.Kind, e.Text, strings.Join(e.Candidates, " or "))
	}
	return fmt.Sprintf("unknown %s %.60q%s", e.Kind, e.Text, DidYouMean(nearest(e.Text, e.Known)))
}

// Find returns the known name that text matches, or else the name with an alias that it matches.
// Its errors are of type *Error.
func Find(kind, text string, known []Name) (string, error) {
	found := Match(text, List(known))
	if found == nil {
		for _, n := range known {
			if Match(text, n.Aliases) != nil {
				found = append(found, n.Name)
			}
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return "", &Error{kind, text, found, known}
}

// FindIn returns the line of a table that text names, as Find does. of returns the names of a line.
func FindIn[T any](table []T, kind, text string, of func(T) Name) (line T, err error) {
	known := slice.Map(table, of)
	name, err := Find(kind, text, known)
	if err != nil {
		return line, err
	}
	return table[slices.IndexFunc(known, func(n Name) bool { return n.Name == name })], nil
}

// Match returns the spellings that text matches: text itself, or else every spelling that differs
// only in case and separators.
func Match(text string, spellings []string) []string {
	if slices.Contains(spellings, text) {
		return []string{text}
	}
	folded := Fold(text)
	if folded == "" {
		return nil
	}
	return slice.Add(nil, slice.Filter(spellings, func(s string) bool { return Fold(s) == folded })...)
}

var separators = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

// Fold returns a name in lower case and without separators. Two names with the same fold
// match.
func Fold(name string) string { return separators.Replace(strings.ToLower(name)) }

// nearest returns the names that are near to text or have an alias near to it.
func nearest(text string, known []Name) (found []string) {
	var spellings []string
	for _, n := range known {
		spellings = append(append(spellings, n.Name), n.Aliases...)
	}
	for _, near := range Near(text, spellings) {
		for _, n := range known {
			if (n.Name == near || slices.Contains(n.Aliases, near)) && !slices.Contains(found, n.Name) {
				found = append(found, n.Name)
			}
		}
	}
	return found
}

// Nearest returns ", did you mean a or b?" for the known names nearest to name, or nothing
// if none is near.
func Nearest(name string, known []string) string { return DidYouMean(Near(name, known)) }

// DidYouMean returns ", did you mean a or b?", or "" for no names.
func DidYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ", did you mean " + strings.Join(names, " or ") + "?"
}

// Near returns the known names near to name, nearest first. A name is near if at most one
// letter in three must be edited, or if it begins with name. Case does not count.
func Near(name string, known []string) (near []string) {
	name = strings.ToLower(name)
	distance := map[string]int{}
	for _, k := range known {
		d := levenshtein.ComputeDistance(name, strings.ToLower(k))
		if d == 0 {
			return []string{k}
		}
		if _, twice := distance[k]; twice {
			continue
		}
		if d <= max(1, len(k)/3) || len(name) > 1 && strings.HasPrefix(k, name) {
			near, distance[k] = append(near, k), d
		}
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
	return near
}

// most is the number of names that a message lists.
const most = 6

// Some formats a few of many names for a message.
func Some(list []string) string {
	if n := len(list); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), n-most)
	}
	return strings.Join(list, ", ")
}

// unknownField matches the errors of encoding/json and go.yaml.in/yaml about a field that a struct
// lacks. Both report it only as text.
var unknownField = regexp.MustCompile(`(?:unknown field "([^"]+)"|field (\S+) not found in type \S+)`)

// OfFields adds the nearest names to an error of encoding/json or go.yaml.in/yaml about fields
// that v lacks. v is the decoded value. OfFields returns other errors unchanged.
func OfFields(err error, v any) error {
	if err == nil || !unknownField.MatchString(err.Error()) {
		return err
	}
	known := fieldsOf(reflect.TypeOf(v), map[reflect.Type]bool{})
	return errors.New(unknownField.ReplaceAllStringFunc(err.Error(), func(found string) string {
		groups := unknownField.FindStringSubmatch(found)
		name := cmp.Or(groups[1], groups[2])
		return fmt.Sprintf("unknown field %q%s", name, Nearest(name, known))
	}))
}

// OfYAML rewrites an error of go.yaml.in/yaml for the user who wrote text. Instead of types of Go it
// states the line, the key and the expected kind of value. v is the decoded value. Unknown fields have
// the nearest names, as those of OfFields.
func OfYAML(err error, text []byte, v any) error {
	var all *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &all):
		return errors.New(strings.Join(slice.Map(all.Errors, func(e *yaml.LoadError) string { return lineOfYAML(e, text, v) }), "; "))
	case errors.As(err, &one):
		return errors.New(lineOfYAML(one, text, v))
	}
	return err
}

func lineOfYAML(e *yaml.LoadError, text []byte, v any) string {
	message := e.Message
	if found := wrongKind.FindStringSubmatch(message); found != nil {
		value := cmp.Or(map[string]string{"!!seq": "a list", "!!map": "a mapping", "!!null": "empty"}[found[1]], found[2])
		message = fmt.Sprintf("%s is %s, expected %s", keyBefore(text, e.Mark.Line, e.Mark.Column), value, kindOf(found[3], v))
	}
	return fmt.Sprintf("line %d: %v", e.Mark.Line, OfFields(errors.New(message), v))
}

// wrongKind is the message about a value that a type of Go cannot hold: its tag, its text and the type.
var wrongKind = regexp.MustCompile("^cannot construct (\\S+)(?: `(.*)`)? into (\\S+)")

// kindOf returns the kind of value that a type within v holds.
func kindOf(name string, v any) string {
	types := map[reflect.Type]bool{}
	typesOf(reflect.TypeOf(v), types)
	for t := range types {
		if t.String() != name {
			continue
		}
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch k := t.Kind(); {
		case k == reflect.Slice || k == reflect.Array:
			return "a list"
		case k == reflect.Struct || k == reflect.Map:
			return "keys with values"
		case k == reflect.Bool:
			return "true or false"
		case k == reflect.Float32 || k == reflect.Float64:
			return "a number"
		case k >= reflect.Int && k <= reflect.Uintptr:
			return "a whole number"
		}
	}
	return "text"
}

// typesOf adds a type and all types within it.
func typesOf(t reflect.Type, types map[reflect.Type]bool) {
	if types[t] {
		return
	}
	types[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		typesOf(t.Elem(), types)
	case reflect.Map:
		typesOf(t.Key(), types)
		typesOf(t.Elem(), types)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			typesOf(f.Type, types)
		}
	}
}

// yamlKey is a key of a YAML mapping.
var yamlKey = regexp.MustCompile(`([\w.-]+)["']?:(?:\s|$)`)

// keyBefore returns the key of the value at a line and column of a YAML text, both from 1.
func keyBefore(text []byte, line, column int) string {
	lines := strings.Split(string(text), "\n")
	for i := min(line, len(lines)) - 1; i >= 0; i-- {
		keys := yamlKey.FindAllStringSubmatchIndex(lines[i], -1)
		for _, k := range slices.Backward(keys) {
			if k[0]+1 < column {
				return lines[i][k[2]:k[3]]
			}
		}
	}
	return "the file"
}

// fieldsOf lists the fields of a type and of nested types by their tags.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool) (list []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	for _, f := range reflect.VisibleFields(t) {
		for _, key := range []string{"json", "yaml"} {
			if name, _, _ := strings.Cut(f.Tag.Get(key), ","); name != "" && name != "-" {
				list = append(list, name)
			}
		}
		list = append(list, fieldsOf(f.Type, seen)...)
	}
	return list
}
