package reproduce

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/kvreplay/kvreplay/internal/files"
)

// FileName is the report in a folder that Write writes.
const FileName = "REPRODUCTION.md"

// Write writes the report into a folder, REPRODUCTION.md, and the figures into
// reproduction/ beside it; each file whole or not at all.
func (r *Report) Write(folder string) error {
	if err := Prepare(folder); err != nil {
		return err
	}
	figures := filepath.Join(folder, figuresFolder)
	for name, svg := range r.figures() {
		if err := files.Write(filepath.Join(figures, name+".svg"), svg); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	var text bytes.Buffer
	if err := r.RenderMarkdown(&text, true); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := files.Write(filepath.Join(folder, FileName), text.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Prepare makes the folders that Write writes into, and says why a report cannot be written
// there, so that it is known before the work.
func Prepare(folder string) error {
	figures := filepath.Join(folder, figuresFolder)
	if err := files.MakeFolder(figures); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	for _, path := range []string{filepath.Join(folder, FileName), filepath.Join(figures, "any.svg")} {
		if err := files.Check(path); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}

// figures are all of the report, by name.
func (r *Report) figures() map[string][]byte {
	all := map[string][]byte{}
	for _, p := range r.Papers {
		for _, s := range p.Sections {
			for _, f := range s.Figures {
				all[f.Name] = f.SVG
			}
		}
	}
	return all
}
