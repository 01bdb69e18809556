package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/requests"
	"github.com/kvreplay/kvreplay/trace"
	"github.com/kvreplay/kvreplay/trace/importer"
)

// explainForeign replaces the error of a file that is no trace, if something is known about
// the file: the command that makes a trace of it, or the command that reads it.
func explainForeign(err error) error {
	e := trace.AsError(err)
	if e == nil || !errors.Is(err, trace.ErrForeign) {
		return err
	}
	if e.Rule != trace.RuleFile { // Parquet: err says how the file differs from a trace
		return fmt.Errorf("%w, as in `%s`", err, importCommand(importer.Parquet, e.Path))
	}
	if text := foreignText(e.Path); text != "" {
		return errors.New(text)
	}
	return err
}

// foreignText says what the file at path is and what to do with it, "" if that is unknown.
func foreignText(path string) string {
	if found, err := importer.Detect(path); err == nil {
		return fmt.Sprintf("%s is %v, not a trace; make a trace of it: `%s`", path, found, importCommand(found.Format, path))
	}
	if found, err := requests.Detect(path); err == nil && found != requests.Unknown && found != requests.Parquet {
		return fmt.Sprintf("%s is a trace of requests (%v), not of selections; `%s` describes it", path, found, commandLine("inspect", path))
	}
	return ""
}

// importCommand is a complete command that imports a source. It states example values for
// what sources of the format leave open.
func importCommand(f importer.Format, path string) string {
	stem := strings.TrimSuffix(filepath.Base(path), ".gz")
	stem = strings.TrimSuffix(stem, filepath.Ext(stem))
	out := stem + ".parquet"
	if f == importer.Parquet {
		out = stem + ".trace.parquet"
	}
	args := []string{"import", path, "-o", out}
	if f == importer.NPZ {
		args = append(args, "--request-id", stem, "--order", "rank")
	}
	return commandLine(args...)
}

// withImportExample adds a complete command to the error of a source for which options are missing.
func withImportExample(err error, paths []string) error {
	var missing *importer.MissingError
	if !errors.As(err, &missing) || len(paths) == 0 {
		return err
	}
	return fmt.Errorf("%w; for example: `%s`", err, importCommand(missing.Format, paths[0]))
}

// outputMissing is the error of an import without --out. It names everything else that the
// sources need too, and a complete command.
func outputMissing(o *importer.Options, paths []string) error {
	err := errors.New("output missing: name it by -o TRACE")
	for _, path := range paths {
		found, detected := importer.Detect(path)
		if detected != nil {
			continue
		}
		if missing := o.Missing(found.Format); missing != nil {
			err = fmt.Errorf("%w; %s: %w", err, path, missing)
		}
		return usagef("%w; for example: `%s`", err, importCommand(found.Format, path))
	}
	return errUsage{err}
}
