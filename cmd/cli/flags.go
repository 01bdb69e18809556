package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// outFlag names what a command writes: --out, -o for short.
const outFlag = "out"

// flagAliases are other spellings of flags.
var flagAliases = map[string]string{"output": outFlag, "policies": "policy"}

// oneName makes two spellings one flag.
func oneName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if flag, ok := flagAliases[name]; ok {
		name = flag
	}
	return pflag.NormalizedName(name)
}

// A flagSet adds the kinds of flags that several commands have, and checks of flags that run
// before the command does.
type flagSet struct {
	*pflag.FlagSet
	inherited *pflag.FlagSet // flags of all commands of a group
	checks    []func() error
	common    []string // flags defined before more
}

// more begins the flags that few need, which help lists last or leaves to --help-all.
func (fl *flagSet) more() {
	fl.VisitAll(func(f *pflag.Flag) { fl.common = append(fl.common, f.Name) })
}

// annotate marks the flags that were defined after more, and those of a group of commands.
func (fl *flagSet) annotate() {
	mark := func(f *pflag.Flag) { f.Annotations = map[string][]string{moreKey: {}} }
	fl.inherited.VisitAll(mark)
	if fl.common == nil {
		return
	}
	fl.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(fl.common, f.Name) {
			mark(f)
		}
	})
}

func (fl *flagSet) out(value *string, usage string) { fl.StringVarP(value, outFlag, "o", "", usage) }

// needOut adds --out to a command that cannot do without. what names the kind of the output.
func (fl *flagSet) needOut(value *string, what, usage string) {
	fl.out(value, usage)
	fl.checks = append(fl.checks, func() error {
		if *value == "" {
			return usagef("output missing: name it with -o %s", what)
		}
		return nil
	})
}

// positive refuses values below 1 of flags that the user gave. Their default may be 0 and mean
// that they are not set.
func (fl *flagSet) positive(names ...string) {
	fl.checks = append(fl.checks, func() error {
		for _, name := range names {
			f := fl.Lookup(name)
			if v, err := strconv.ParseFloat(f.Value.String(), 64); f.Changed && (err != nil || !(v >= 1)) { // NaN neither
				return usagef("--%s %s: expected at least 1", name, f.Value)
			}
		}
		return nil
	})
}

// slo adds --slo. usage states its effect.
func (fl *flagSet) slo(value *time.Duration, usage string) {
	fl.DurationVar(value, "slo", 0, usage+", as in 50ms (default: none)")
	fl.checks = append(fl.checks, func() error {
		if fl.Changed("slo") && *value <= 0 {
			return usagef("--slo %v: expected more than 0, as in 50ms", *value)
		}
		return nil
	})
}

// goWith refuses flags that are given without the one that they need.
func (fl *flagSet) goWith(needed string, names ...string) {
	fl.checks = append(fl.checks, func() error {
		for _, name := range names {
			if fl.Changed(name) && !fl.Changed(needed) {
				return usagef("--%s needs --%s", name, needed)
			}
		}
		return nil
	})
}

// value is a flag that a function reads.
type value struct {
	kind  string // the type that help shows
	read  func(text string) error
	show  func() string // the value as manifests and help show it
	known []string      // the values of an enum
}

// Set reads a text.
func (v value) Set(text string) error { return v.read(text) }

func (v value) String() string { return v.show() }

// Type returns the type that help shows.
func (v value) Type() string { return v.kind }

// enum adds a flag that takes one of the known values. An empty text is left to checkValues. Set
// refuses other values and offers the nearest one.
func (fl *flagSet) enum(to *string, name, usual, usage string, known ...string) {
	*to = usual
	fl.Var(value{"string", func(text string) error {
		if text != "" && !slices.Contains(known, text) {
			return fmt.Errorf("expected %s%s", english.WordSeries(known, "or"), names.Nearest(text, known))
		}
		*to = text
		return nil
	}, func() string { return *to }, known}, name, usage)
}

// format adds --format. The first of the known values is the default. after ends the usage.
func (fl *flagSet) format(value *string, after string, known ...string) {
	quoted := append([]string{"`" + known[0] + "`"}, known[1:]...)
	fl.enum(value, "format", known[0], "print "+english.WordSeries(quoted, "or")+after, known...)
}

// where is --where: the conditions that select rows.
type where struct {
	texts      []string
	conditions result.Where
}

func (fl *flagSet) where(w *where) {
	fl.Var(w, "where", "use only rows with `KEY=VALUE` or KEY!=VALUE (repeatable, the values of a key are alternatives)")
}

// Set adds a condition. An empty text is left to checkValues.
func (w *where) Set(text string) error { return w.Append(text) }

// Append adds a condition.
func (w *where) Append(text string) error { return w.Replace(append(slices.Clone(w.texts), text)) }

// Replace replaces all conditions.
func (w *where) Replace(texts []string) (err error) {
	w.texts = texts
	w.conditions, err = result.ParseWhere(slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return t == "" }))
	return errors.Unwrap(err) // without the condition, which the error of the flag states
}

// GetSlice returns the conditions as typed.
func (w *where) GetSlice() []string { return w.texts }

func (w *where) String() string { return strings.Join(w.texts, ",") }

// Type returns the type of a list whose items are given one by one.
func (*where) Type() string { return "stringArray" }

// mostBytes is the largest entry or block: products with counts have 63 bits.
const mostBytes = 1 << 30

// mostMemory is the largest memory.
const mostMemory = 1 << 50

// sizeVar adds a flag of bytes, with or without a unit: 656, 4KiB.
func sizeVar[N int | int64](fl *flagSet, to *N, name string, usual N, most int64, usage string) {
	*to = usual
	fl.Var(value{"bytes", func(text string) error {
		n, err := parseSize(text)
		switch {
		case err != nil:
			return err
		case n > most:
			return fmt.Errorf("expected at most %s", strings.ReplaceAll(humanize.IBytes(uint64(most)), ".0 ", ""))
		}
		*to = N(n)
		return nil
	}, func() string { return fmt.Sprint(*to) }, nil}, name, usage)
}

// parseSize reads bytes with or without a unit: 656, 4G, 4GB (10⁹), 4GiB (2³⁰). Negative numbers
// are left to the checks that refuse 0.
func parseSize(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n, nil
	}
	bytes, err := humanize.ParseBytes(text)
	if err != nil && strings.HasPrefix(err.Error(), "too large") {
		return math.MaxInt64, nil // which the checks of the flags refuse
	}
	number, fraction := strconv.ParseFloat(strings.TrimRight(text, " B"), 64)
	if err != nil || strings.HasSuffix(text, "b") || fraction == nil && number != math.Trunc(number) {
		if capital := strings.ToUpper(strings.TrimSuffix(text, "b")) + "B"; err == nil && strings.HasSuffix(text, "b") {
			return 0, fmt.Errorf("a final b means bits, did you mean %s?", strings.ReplaceAll(capital, "IB", "iB"))
		}
		return 0, errors.New("expected whole bytes, as in 656, 4GB (10⁹) or 4GiB (2³⁰)")
	}
	return int64(min(bytes, math.MaxInt64)), nil
}

// parseLayers reads layer numbers and inclusive ranges: "0", "10-20". It returns nil for none.
func parseLayers(texts []string) (layers []int32, err error) {
	seen := map[int32]bool{}
	for _, text := range texts {
		from, to, isRange := strings.Cut(strings.TrimSpace(text), "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if errA != nil || errB != nil || a > b || b > 1<<20 {
			return nil, fmt.Errorf("layers %q: expected a number or a range, as in 0,5,10-20", text)
		}
		for l := int32(a); l <= int32(b); l++ {
			if !seen[l] {
				seen[l] = true
				layers = append(layers, l)
			}
		}
	}
	return layers, nil
}

// joinOptions undoes the split at commas within the options of a schedule or policy: an item
// with a "=" and no ":" belongs to the item before.
func joinOptions(items []string) (joined []string) {
	for _, item := range items {
		if n := len(joined); n > 0 && strings.Contains(item, "=") && !strings.Contains(item, ":") {
			joined[n-1] += "," + item
		} else {
			joined = append(joined, item)
		}
	}
	return joined
}

// flagError says what is wrong with a flag. It offers the nearest flags for an unknown one and
// states what was expected for a bad value.
func flagError(c *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s %q: %s; see `%s --help`", invalid.GetFlag().Name, invalid.GetValue(), whatFails(invalid), c.CommandPath())
	}
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if _, word, short := strings.Cut(err.Error(), " in -"); short {
		if _, err := os.Lstat("-" + word); err == nil {
			return usagef("-%s looks like flags: name the file ./-%s", word, word)
		}
	}
	if !ok {
		return usagef("%w; see `%s --help`", err, c.CommandPath())
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		known = append(known, f.Name)
		for alias, flag := range flagAliases {
			if flag == f.Name {
				known = append(known, alias)
			}
		}
	})
	near := slice.Map(names.Near(name, known), func(flag string) string { return "--" + flag })
	return usagef("unknown flag --%s%s; `%s --help` lists them", name, names.DidYouMean(near), c.CommandPath())
}

// expected says what a flag takes, by the type of its value.
var expected = map[string]string{
	"int": "a whole number", "int64": "a whole number", "intSlice": "whole numbers", "int64Slice": "whole numbers",
	"uint64":  "a whole number of at least 0",
	"float64": "a number", "bool": "true or false",
	"duration": "a time with its unit, as in 30s or 50ms",
}

// whatFails says why a value cannot be read.
func whatFails(err *pflag.InvalidValueError) string {
	what, known := expected[err.GetFlag().Value.Type()]
	switch {
	case !known:
		return err.Unwrap().Error()
	case errors.Is(err, strconv.ErrRange):
		return "out of range"
	}
	return "expected " + what
}
