package card

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
)

// PlotsFolder is the name of the folder beside the card that its plots lie in: "card"
// for CARD.md.
func PlotsFolder(path string) string {
	name := filepath.Base(path)
	folder := strings.ToLower(strings.TrimSuffix(name, filepath.Ext(name)))
	if folder == name || folder == "" {
		return name + "-plots"
	}
	return folder
}

// Write writes the plots and then the card, each file whole or not at all, and removes
// plots of an earlier card that this one lacks.
func (c *Card) Write(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("write card: %s is a folder, expected a file", path)
	}
	folder := filepath.Join(filepath.Dir(path), PlotsFolder(path))
	if len(c.Plots) > 0 {
		if err := files.MakeFolder(folder); err != nil {
			return fmt.Errorf("write card: %w", err)
		}
	}
	for _, name := range PlotNames {
		file := filepath.Join(folder, name)
		if svg := c.Plots[name]; svg != nil {
			if err := files.Write(file, svg); err != nil {
				return fmt.Errorf("write card: %w", err)
			}
		} else if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write card: %w", err)
		}
	}
	if err := files.Write(path, c.Text); err != nil {
		return fmt.Errorf("write card: %w", err)
	}
	return nil
}
