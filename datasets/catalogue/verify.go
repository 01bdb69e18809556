package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/trace"
)

// State is the result of Verify for a file.
type State string

// The states. All but Good and Reencoded are faults.
const (
	Good       State = "good"
	Missing    State = "missing"
	Unreadable State = "unreadable"
	Reencoded  State = "re-encoded" // a trace with other bytes and the same content
	Different  State = "different"
)

// Check is the outcome for one file.
type Check struct {
	Name   string `json:"name"` // of the entry
	File   string `json:"file"`
	Path   string `json:"path"` // the path that was checked
	State  State  `json:"state"`
	Bytes  int64  `json:"bytes"`  // of the file
	SHA256 string `json:"sha256"` // of the file
	Digest string `json:"digest"` // of the file, empty if there is none
	// Problem states the finding, the expectation and the remedy. It is empty if the file is good.
	Problem string `json:"problem"`
}

// Verify compares the entry's files in a folder with the catalogue. The error is that of ctx.
// Faults of files are in the checks.
func (e *Entry) Verify(ctx context.Context, folder string) ([]Check, error) {
	var checks []Check
	for i := range e.Files {
		c := Check{Name: e.Name, File: e.Files[i].Name, Path: filepath.Join(folder, e.Files[i].Name)}
		if ctx.Err() == nil {
			c.compare(ctx, &e.Files[i])
		}
		if err := ctx.Err(); err != nil {
			return checks, fmt.Errorf("verify %s: %w", c.File, err)
		}
		if c.State != Good {
			c.Problem += ". " + e.remedy(&c)
		}
		checks = append(checks, c)
	}
	return checks, nil
}

func (c *Check) compare(ctx context.Context, want *File) {
	var err error
	c.SHA256, c.Bytes, err = files.Sum(ctx, c.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.State, c.Problem = Missing, "no such file"
	case err != nil:
		c.State, c.Problem = Unreadable, fmt.Sprintf("cannot be read: %v", err)
	default:
		var violation *trace.Error
		if want.Digest != "" {
			violation = c.digest(ctx)
		}
		c.decide(want, violation)
	}
}

// digest computes the digest of a trace's content. The first violation of the format prevents it.
func (c *Check) digest(ctx context.Context) (violation *trace.Error) {
	v, err := trace.Validate(ctx, c.Path, func(e *trace.Error) bool { violation = e; return false })
	if err != nil && violation == nil {
		violation = &trace.Error{Path: c.Path, RowGroup: -1, Row: -1, Err: err}
	}
	c.Digest = v.Digest
	return violation
}

func (c *Check) decide(want *File, violation *trace.Error) {
	same := c.SHA256 == want.SHA256 && c.Bytes == want.Bytes
	switch {
	case same && c.Digest == want.Digest:
		c.State = Good
	case same:
		c.State, c.Problem = Different, fmt.Sprintf("the bytes match the catalogue, but the digest is %q, expected %s: the catalogue is wrong", c.Digest, want.Digest)
	case want.Digest != "" && c.Digest == want.Digest:
		c.State, c.Problem = Reencoded, fmt.Sprintf("%s, but with the same content, which replays to the same counts", c.bytes(want))
	default:
		c.State, c.Problem = Different, c.bytes(want)
		if violation != nil {
			c.Problem += fmt.Sprintf(", not a valid trace: %v", violation.Err)
		} else if want.Digest != "" {
			c.Problem += fmt.Sprintf(", digest %s, expected %s", c.Digest, want.Digest)
		}
	}
}

func (c *Check) bytes(want *File) string {
	return fmt.Sprintf("%d bytes with SHA-256 %s, expected %d with %s", c.Bytes, c.SHA256, want.Bytes, want.SHA256)
}

func (e *Entry) remedy(c *Check) string {
	again := fmt.Sprintf("`kvreplay datasets describe %s` shows how to make it again", e.Name)
	if e.Bundled != "" {
		return fmt.Sprintf("In a checkout `git checkout -- %s` restores it, and %s", path.Join(e.Bundled, filepath.Base(c.Path)), again)
	}
	return again
}
