package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/trace"
)

// task is one trace of a run.
type task struct {
	file    *trace.File
	job     *replay.Job
	profile *replay.Profile // nil unless asked for
}

// plan opens and plans every trace before anything is replayed, so that a wrong name,
// a broken file or an option that a trace cannot serve costs no work.
func (f *replayFlags) plan(paths []string, o replay.Options) (tasks []*task, err error) {
	seen := map[string]bool{}
	for _, path := range paths {
		if seen[filepath.Clean(path)] {
			return tasks, usagef("trace %s is named twice", path)
		}
		seen[filepath.Clean(path)] = true
		t := new(task)
		if t.file, err = trace.Open(path); err != nil {
			return tasks, err
		}
		tasks = append(tasks, t)
		if t.job, err = replay.Plan(t.file, o); err != nil {
			return tasks, err
		}
		if err := f.record(t); err != nil {
			return tasks, err
		}
	}
	return tasks, nil
}

// record opens the task's profile where one is asked for and not there already.
func (f *replayFlags) record(t *task) (err error) {
	if !f.profile {
		return nil
	}
	path := filepath.Join(f.out, t.fileName("profile", ".parquet"))
	if t.job.Recorded(path, f.indices) {
		return nil
	}
	if t.profile, err = replay.CreateProfile(path, f.indices); err != nil {
		return err
	}
	return t.job.Record(t.profile)
}

// fileName names what a run keeps of a trace by all that the rows depend on, so that
// runs into one folder add up and a repeated run replaces itself.
func (t *task) fileName(what, suffix string) string {
	return fmt.Sprintf("%s.%s-%s%s", strings.TrimSuffix(filepath.Base(t.file.Path()), ".parquet"), what, t.job.Key(), suffix)
}

// workOf is the work left in all tasks, and its cells.
func workOf(tasks []*task) (steps int64, cells int) {
	for _, t := range tasks {
		steps += t.job.Work()
		cells += t.job.Cells()
	}
	return steps, cells
}

// closeAll closes the traces and removes profiles that were not finished.
func closeAll(tasks []*task) {
	for _, t := range tasks {
		t.file.Close()
		if t.profile != nil {
			t.profile.Abort()
		}
	}
}
