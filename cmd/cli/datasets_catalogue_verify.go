package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/catalogue"
)

func newDatasetsVerifyCommand() *cobra.Command {
	folder, format := "", "text"
	c := &cobra.Command{
		Use:   "verify [NAME...]",
		Short: "Check files against the digests of the catalogue",
		Long: `Check files against the catalogue: size and SHA-256 of each and, of traces, the digest
of the content. Without names, all bundled traces, of a checkout or of those of its
folders that --dir has files of; with names, the files of those entries, as one
downloaded or made them. The exit code is 1 where a file differs or is missing; each is
named, with what to do. A trace with other bytes and the same content is re-encoded,
which is said and is no error: it replays to the same counts.`,
		Example: `  kvreplay datasets verify
  kvreplay datasets verify --dir kvreplay
  kvreplay datasets verify --dir kvreplay/datasets/bundled
  kvreplay datasets verify azure-llm-2023 --dir downloads`,
		RunE: func(c *cobra.Command, names []string) error {
			if format != "text" && format != "json" {
				return usagef("--format %q, expected text or json", format)
			}
			entries, err := verifiable(names)
			if err != nil {
				return err
			}
			if len(names) == 0 && folder != "" {
				if entries, err = entriesIn(folder, entries); err != nil {
					return err
				}
			}
			return runDatasetsVerify(c.Context(), c.OutOrStdout(), entries, folder, format)
		},
	}
	c.Flags().StringVar(&folder, "dir", "", "`folder` of the files, or of a checkout (default: the checkout here for what is bundled, else the current one)")
	c.Flags().StringVar(&format, "format", format, "`text` or json (one object a file)")
	return c
}

// verifiable are the named entries, all bundled ones without names.
func verifiable(names []string) ([]*catalogue.Entry, error) {
	if len(names) == 0 {
		var entries []*catalogue.Entry
		for i, e := range catalogue.All() {
			if e.Bundled != "" {
				entries = append(entries, &catalogue.All()[i])
			}
		}
		return entries, nil
	}
	entries, err := findEntries(names)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if len(e.Files) == 0 {
			return nil, usagef("%s has no digest: its files depend on what is asked for; `kvreplay datasets describe %s`", e.Name, e.Name)
		}
	}
	return entries, nil
}

// entriesIn are the bundled entries that a folder should have: all where it is a checkout,
// else those that are bundled together with one of which it has a file.
func entriesIn(folder string, entries []*catalogue.Entry) ([]*catalogue.Entry, error) {
	there := map[string]bool{}
	for _, e := range entries {
		where, err := filesFolder(e, folder)
		if err != nil {
			return nil, err
		}
		for i := range e.Files {
			if _, err := os.Stat(filepath.Join(where, e.Files[i].Name)); err == nil {
				there[e.Bundled] = true
			}
		}
	}
	entries = slices.DeleteFunc(entries, func(e *catalogue.Entry) bool { return !there[e.Bundled] })
	if len(entries) == 0 {
		return nil, fmt.Errorf("verify: %s has none of the bundled traces, and is no checkout of kvreplay", folder)
	}
	return entries, nil
}

func runDatasetsVerify(ctx context.Context, w io.Writer, entries []*catalogue.Entry, folder, format string) error {
	files, bad := 0, 0
	for _, e := range entries {
		where, err := filesFolder(e, folder)
		if err != nil {
			return err
		}
		checks, err := e.Verify(ctx, where)
		if err != nil {
			return err
		}
		for i := range checks {
			files++
			if s := checks[i].State; s != catalogue.Good && s != catalogue.Reencoded {
				bad++
			}
			if err := printCheck(w, &checks[i], format); err != nil {
				return err
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d files are not as the catalogue has them", bad, files)
	}
	return nil
}

// filesFolder is where an entry's files are looked for.
func filesFolder(e *catalogue.Entry, named string) (string, error) {
	folder := named
	switch {
	case named == "" && e.Bundled == "":
		return ".", nil
	case named == "":
		folder = filepath.FromSlash(e.Bundled)
	case e.Bundled != "":
		checkout := filepath.Join(named, filepath.FromSlash(e.Bundled))
		if info, err := os.Stat(checkout); err == nil && info.IsDir() {
			return checkout, nil
		}
	}
	info, err := os.Stat(folder)
	switch {
	case err == nil && info.IsDir():
		return folder, nil
	case err == nil:
		return "", fmt.Errorf("verify: %s is a file, expected a folder", folder)
	case named != "":
		return "", fmt.Errorf("verify: %w", err)
	}
	return "", fmt.Errorf("verify: no folder %s here: run this in a checkout of kvreplay, or say with --dir where the bundled traces are (the binary has one of them: `kvreplay datasets extract --help`)", folder)
}

func printCheck(w io.Writer, c *catalogue.Check, format string) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(c)
	}
	line := fmt.Sprintf("%s: %s: %s", c.Path, c.State, c.Problem)
	if c.State == catalogue.Good {
		line = fmt.Sprintf("%s: good: %s bytes, SHA-256 %s", c.Path, humanize.Comma(c.Bytes), c.SHA256)
		if c.Digest != "" {
			line += ", content " + c.Digest
		}
	}
	_, err := fmt.Fprintln(w, line)
	return err
}
