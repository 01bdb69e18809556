package cli

import (
	"fmt"
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
	if err := checkNames(paths, "into a folder"); err != nil {
		return nil, err
	}
	digests := map[string]string{} // to a path
	for _, path := range paths {
		t := new(task)
		if t.file, err = trace.Open(path); err != nil {
			return tasks, err
		}
		tasks = append(tasks, t)
		if t.job, err = replay.Plan(t.file, o); err != nil {
			return tasks, err
		}
		if other, ok := digests[t.job.Digest()]; ok {
			return tasks, usagef("%s and %s are the same trace (digest %s), whose rows would count twice: name one of them", other, path, t.job.Digest())
		}
		digests[t.job.Digest()] = path
		if f.out != "" {
			if err := checkOutput("replay", filepath.Join(f.out, replay.RowsName(path)), nil); err != nil {
				return tasks, err
			}
		}
		if err := f.record(t); err != nil {
			return tasks, err
		}
	}
	return tasks, nil
}

// checkNames refuses paths whose rows could not be told apart: they state the file's name.
// apart is what else keeps them apart.
func checkNames(paths []string, apart string) error {
	seen := map[string]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		other, ok := seen[name]
		switch {
		case ok && filepath.Clean(other) == filepath.Clean(path):
			return usagef("trace %s is named twice", path)
		case ok:
			return usagef("%s and %s have the same file name, and rows name traces by it: rename one, or replay each %s of its own", other, path, apart)
		}
		seen[name] = path
	}
	return nil
}

// record opens the task's profile where one is asked for and not there already.
func (f *replayFlags) record(t *task) (err error) {
	if !f.profile {
		return nil
	}
	path := filepath.Join(f.out, t.profileName())
	if t.job.Recorded(path, f.indices) {
		return nil
	}
	if t.profile, err = replay.CreateProfile(path, f.indices); err != nil {
		return err
	}
	return t.job.Record(t.profile)
}

// profileName names the profile of a trace by all that it depends on, so that a repeated
// run replaces its own profile and no other.
func (t *task) profileName() string {
	return fmt.Sprintf("%s.profile-%s.parquet", replay.Stem(t.file.Path()), t.job.Key())
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
