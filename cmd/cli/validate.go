package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/trace"
)

func newValidateCommand() *cobra.Command {
	limit, format := 20, "text"
	c := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check traces against every rule of the format",
		Long: `Check traces against every rule of trace/FORMAT.md. Each violation is printed with
file, row group, row, stream and step; a good file gets one line with its digest. The
exit code is 1 when any file breaks a rule.`,
		Example: "  kvreplay validate t.parquet\n  kvreplay validate --limit 0 --format json traces/*.parquet",
		Args:    atLeast(1, "trace"),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usagef("--format %q, expected text or json", format)
			}
			if limit < 0 {
				return usagef("--limit %d, expected 0 (all) or more", limit)
			}
			return runValidate(c.Context(), c.OutOrStdout(), args, limit, format)
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "violations to print a file; 0 prints all")
	c.Flags().StringVar(&format, "format", format, "`text` or json (one object a file)")
	return c
}

// validation is the JSON form of one file's outcome (trace/README.md).
type validation struct {
	Path       string      `json:"path"`
	Valid      bool        `json:"valid"`
	Digest     string      `json:"digest"` // of the content; empty where violations prevent it
	Stated     bool        `json:"stated"` // the file states this digest
	Streams    int         `json:"streams"`
	Rows       int64       `json:"rows"`
	Indices    int64       `json:"indices"`
	Violations []violation `json:"violations"`
	Truncated  bool        `json:"truncated"` // there may be more violations than the limit
	Error      string      `json:"error"`     // why the file could not be read at all
}

// violation is one broken rule; row, row group and step are null where they do not apply.
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

func runValidate(ctx context.Context, w io.Writer, paths []string, limit int, format string) error {
	bad := 0
	for _, path := range paths {
		v := validateFile(ctx, path, limit)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("validate %s: %w", path, err)
		}
		if !v.Valid {
			bad++
		}
		if err := printValidation(w, &v, format); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d files are no valid traces (rules: trace/FORMAT.md)", bad, len(paths))
	}
	return nil
}

func printValidation(w io.Writer, v *validation, format string) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(v)
	}
	if v.Error != "" {
		_, err := fmt.Fprintln(w, v.Error)
		return err
	}
	for _, e := range v.Violations {
		if _, err := fmt.Fprintf(w, "%s [%s]\n", e.Message, e.Rule); err != nil {
			return err
		}
	}
	switch {
	case v.Valid:
		stated := "computed; the file states none"
		if v.Stated {
			stated = "as stated"
		}
		_, err := fmt.Fprintf(w, "%s: good: %s, %s, %s indices, %s (%s)\n", v.Path,
			count(v.Streams, "stream"), count(v.Rows, "row"), humanize.Comma(v.Indices), v.Digest, stated)
		return err
	case v.Truncated:
		_, err := fmt.Fprintf(w, "%s: stopped after %s; --limit 0 prints all\n", v.Path, count(len(v.Violations), "violation"))
		return err
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", v.Path, count(len(v.Violations), "violation"))
	return err
}
