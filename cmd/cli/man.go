//go:build !minimal

package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/kvreplay/kvreplay/internal/files"
)

// manCommands returns the command that writes the manual pages, for releases. Help does not list it.
// Programs of users have the tag minimal and lack it, because its library adds 270 KB.
func manCommands() []command {
	var out string
	return []command{{
		use:    "man",
		short:  "Write the manual pages of all commands",
		long:   "Write a manual page of each command into a folder. Their date is $SOURCE_DATE_EPOCH, or else the build's.",
		hidden: true,
		flags:  func(fl *flagSet) { fl.needOut(&out, "FOLDER", "write the pages to this `FOLDER`") },
		run: func(c *call) error {
			if err := writeManual(c.Root(), out); err != nil {
				return err
			}
			c.wrote(out)
			return nil
		},
	}}
}

func writeManual(root *cobra.Command, folder string) error {
	date, err := time.Parse(time.RFC3339, built)
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		var seconds int64
		if seconds, err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("$SOURCE_DATE_EPOCH %q: expected seconds since 1970", text)
		}
		date = time.Unix(seconds, 0).UTC()
	}
	if err != nil {
		return errors.New("this build states no time: set $SOURCE_DATE_EPOCH to the seconds since 1970")
	}
	if err := files.MakeFolder(folder); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	root.DisableAutoGenTag = true
	name, _, _ := strings.Cut(versionText(), "\n")
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "kvreplay " + name, Manual: "kvreplay", Date: &date}, folder)
}
