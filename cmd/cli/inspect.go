package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/inspect"
)

func inspectCommand() command {
	var o inspect.Options
	var format string
	return command{
		use:   "inspect FILE...",
		short: "Describe a trace, or a trace of requests",
		long: `Describe a trace, a file or s3://BUCKET/KEY: its metadata, extent and locality of its demand.
The locality has the overlap of consecutive steps, working sets, reuse distances and the shares
of new and pinned entries. trace/locality/README.md defines each figure.
A trace of requests (CSV or Mooncake JSON lines) is described by its arrivals,
lengths and shared prefixes. datasets/requests/README.md defines them.`,
		example: "  kvreplay inspect t.parquet --layers\n  kvreplay inspect --topk 128 --format json t.parquet\n  kvreplay inspect conversation_trace.jsonl",
		args:    atLeast(1, "trace"),
		flags: func(fl *flagSet) {
			fl.IntVar(&o.TopK, "topk", 0, "`K`, the list entries that a step reads (default: the trace's)")
			fl.VarPF(eachLayer(&o.Layers), "layers", "", "print the locality of each layer too").NoOptDefVal = "true"
			fl.format(&format, " (one object per file)", "text", "json")
			fl.positive("topk")
		},
		run: func(c *call) error {
			if err := noLayers(c); err != nil {
				return err
			}
			for i, path := range c.args {
				r, err := inspectFile(c.Context(), path, o)
				if err != nil {
					return err
				}
				if format == "json" {
					err = json.NewEncoder(c.stdout).Encode(r)
				} else {
					if i > 0 {
						fmt.Fprintln(c.stdout)
					}
					err = r.Text(c.stdout)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		next: func(c *call) []string {
			if storage.IsURL(c.args[0]) {
				return append([]string{"replay"}, c.args...)
			}
			if found, err := requests.Detect(c.args[0]); err != nil || found != requests.Parquet {
				return nil // requests have no selections to replay
			}
			return append([]string{"replay"}, c.args...)
		},
	}
}

// eachLayer is --layers of inspect: a flag without a value. It refuses 1 and 0, which other
// flags take for true and false, because they could be layers.
func eachLayer(to *bool) value {
	return value{"bool", func(text string) error {
		if text != "true" && text != "false" {
			return strconv.ErrSyntax
		}
		*to = text == "true"
		return nil
	}, func() string { return strconv.FormatBool(*to) }, nil}
}

// noLayers refuses layers after --layers, which would be read as files. The flag takes none
// here, unlike that of replay and derive.
func noLayers(c *call) error {
	if !c.changed("layers") {
		return nil
	}
	for _, arg := range c.args {
		if _, err := parseLayers(strings.Split(arg, ",")); err != nil {
			continue
		}
		if _, err := os.Stat(arg); err != nil {
			return usagef("--layers takes no value here, and %q is no file: to select layers, use `kvreplay derive --layers`", arg)
		}
	}
	return nil
}

// report describes one file. It encodes as JSON.
type report interface{ Text(io.Writer) error }

// inspectFile describes a trace or a trace of requests.
func inspectFile(ctx context.Context, path string, o inspect.Options) (report, error) {
	if storage.IsURL(path) {
		return inspect.File(ctx, path, o)
	}
	found, err := requests.Detect(path)
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	switch {
	case found == requests.Parquet:
		return inspect.File(ctx, path, o)
	case found == requests.Unknown:
		if text := foreignText(path); text != "" {
			return nil, fmt.Errorf("inspect: %s", text)
		}
		return nil, fmt.Errorf("inspect: %s is neither a trace, which `kvreplay import` makes, nor %s", path, requests.Known)
	case o.TopK != 0:
		return nil, usagef("--topk needs a trace of selections, and %s is one of requests (%v): remove the flag", path, found)
	case o.Layers:
		return nil, usagef("--layers needs a trace of selections, and %s is one of requests (%v): remove the flag", path, found)
	}
	return requests.Summarise(ctx, path)
}

func validateCommand() command {
	var limit int
	var format string
	return command{
		use:   "validate FILE...",
		short: "Check traces against every rule of the format",
		long: `Check traces against every rule of trace/FORMAT.md. Each violation is printed with its file,
row group, row, stream and step. For a good file one line with its digest is printed.
A file may be an object s3://BUCKET/KEY (trace/STORAGE.md).
The exit code is 1 if a file breaks a rule.`,
		example: "  kvreplay validate t.parquet\n  kvreplay validate --limit 0 --format json traces/*.parquet",
		args:    atLeast(1, "trace"),
		flags: func(fl *flagSet) {
			fl.IntVar(&limit, "limit", 20, "print at most `N` violations per file, or all with 0")
			fl.format(&format, " (one object per file)", "text", "json")
		},
		run: func(c *call) error {
			if limit < 0 {
				return usagef("--limit %d: expected 0 (all) or more", limit)
			}
			bad, unread := 0, 0
			for _, path := range c.args {
				v := validateFile(c.Context(), path, limit)
				if err := c.Context().Err(); err != nil {
					return fmt.Errorf("validate %s: %w", path, err)
				}
				switch {
				case v.Error != "":
					unread++
				case !v.Valid:
					bad++
				}
				v.print(c.stdout, format)
			}
			if unread > 0 {
				return fmt.Errorf("not readable: %d of %s, not valid: %d", unread, count(len(c.args), "file"), bad)
			}
			if bad > 0 {
				return fmt.Errorf("not valid: %d of %s (trace/FORMAT.md has the rules)", bad, count(len(c.args), "file"))
			}
			return nil
		},
		next: withArgs("replay"),
	}
}

// validation is the JSON form of the outcome for one file (trace/README.md).
type validation struct {
	Path       string      `json:"path"`
	Valid      bool        `json:"valid"`
	Digest     string      `json:"digest"` // of the content. Empty if violations prevent it
	Stated     bool        `json:"stated"` // the file states this digest
	Streams    int         `json:"streams"`
	Rows       int64       `json:"rows"`
	Indices    int64       `json:"indices"`
	Violations []violation `json:"violations"`
	Truncated  bool        `json:"truncated"` // there may be more violations than the limit
	Error      string      `json:"error"`     // why the file could not be read at all
}

// violation is one broken rule. Row, row group and step are null if they do not apply.
type violation struct {
	Rule     string  `json:"rule"`
	RowGroup *int    `json:"row_group"`
	Row      *int64  `json:"row"`
	Request  *string `json:"request_id"`
	Layer    *int32  `json:"layer_id"`
	Head     *int32  `json:"head"`
	Step     *int32  `json:"step"`
	Message  string  `json:"message"`
}

func newViolation(e *trace.Error) violation {
	v := violation{Rule: e.Rule, Step: e.Step, Message: explainForeign(e).Error()}
	if e.RowGroup >= 0 {
		v.RowGroup = &e.RowGroup
	}
	if e.Row >= 0 {
		v.Row = &e.Row
	}
	if e.Stream != nil {
		v.Request, v.Layer = &e.Stream.Request, &e.Stream.Layer
		if e.Stream.Head != trace.NoHead {
			v.Head = &e.Stream.Head
		}
	}
	return v
}

// validateFile applies every rule to one file.
func validateFile(ctx context.Context, path string, limit int) validation {
	out := validation{Path: path, Violations: []violation{}}
	v, err := trace.Validate(ctx, path, func(e *trace.Error) bool {
		if limit > 0 && len(out.Violations) == limit {
			out.Truncated = true
			return false
		}
		out.Violations = append(out.Violations, newViolation(e))
		return true
	})
	if err != nil {
		out.Error = err.Error()
	}
	out.Digest, out.Stated = v.Digest, v.Stored
	out.Streams, out.Rows, out.Indices = v.Streams, v.Rows, v.Indices
	out.Valid = err == nil && len(out.Violations) == 0
	return out
}

// print prints the outcome. stdout keeps the first error.
func (v *validation) print(w io.Writer, format string) {
	switch {
	case format == "json":
		_ = json.NewEncoder(w).Encode(v)
		return
	case v.Error != "":
		fmt.Fprintln(w, v.Error)
		return
	}
	for _, e := range v.Violations {
		fmt.Fprintf(w, "%s [%s]\n", e.Message, e.Rule)
	}
	outcome := count(len(v.Violations), "violation")
	switch {
	case v.Valid:
		stated := "computed, because the file states none"
		if v.Stated {
			stated = "as stated"
		}
		outcome = fmt.Sprintf("good: %s, %s, %s indices, %s (%s)",
			count(v.Streams, "stream"), count(v.Rows, "row"), humanize.Comma(v.Indices), v.Digest, stated)
	case v.Truncated:
		outcome = "stopped after " + outcome + "; --limit 0 prints all"
	}
	fmt.Fprintf(w, "%s: %s\n", v.Path, outcome)
}
