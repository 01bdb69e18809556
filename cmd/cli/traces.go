package cli

import (
	"path/filepath"

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
		if f.profile {
			if t.profile, err = replay.CreateProfile(filepath.Join(f.out, f.fileName(t.file, "profile", ".parquet")), f.indices); err != nil {
				return tasks, err
			}
			o.Profile = t.profile
		}
		if t.job, err = replay.Plan(t.file, o); err != nil {
			return tasks, err
		}
	}
	return tasks, nil
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
