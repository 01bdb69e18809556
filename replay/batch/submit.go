package batch

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/internal/text"
)

// Submission states how an engine starts the shards.
type Submission struct {
	Batch   string // path of the batch file on the machines of the cluster
	Packs   string // folder of the packs. Empty: the default of `kvreplay batch run`
	Program string // path or name of the program. Empty: kvreplay
	Cores   int    // of a task
	Image   string // of a container. Empty: kvreplay
}

// maxArray is the number of tasks of an array: MaxArraySize of Slurm is 1,001 unless it is changed.
const maxArray = 1000

// command returns the command of a task, without the shard.
func (s Submission) command() []string {
	program := s.Program
	if program == "" {
		program = "kvreplay"
	}
	words := []string{program, "batch", "run", s.Batch}
	if s.Packs != "" {
		words = append(words, "--packs", s.Packs)
	}
	return words
}

// Command returns the command of a task for a shell, without the shard.
func (s Submission) Command() string {
	return strings.Join(slice.Map(s.command(), printable.ShellWord), " ")
}

// Slurm returns the lines that submit some shards, in ascending order, as job arrays. Arrays of
// more than 1,000 tasks are divided, because many clusters refuse them.
func (s Submission) Slurm(shards []int) (lines []string) {
	for from := 0; from < len(shards); {
		offset, to := shards[from]/maxArray*maxArray, from
		var indices []int
		for ; to < len(shards) && shards[to] < offset+maxArray; to++ {
			indices = append(indices, shards[to]-offset)
		}
		command := "exec " + s.Command()
		if offset > 0 {
			command += " --offset " + strconv.Itoa(offset)
		}
		lines = append(lines, fmt.Sprintf("sbatch --array=%s --cpus-per-task=%d --requeue --open-mode=append --signal=B:TERM@60 --wrap %s",
			array(indices), max(1, s.Cores), printable.ShellWord(command)))
		from = to
	}
	return lines
}

// array writes ascending numbers as Slurm reads them: "0-3,7,9-12".
func array(numbers []int) string { return strings.Join(text.Ranges(numbers), ",") }

// unnameable are characters that a name in Kubernetes cannot have.
var unnameable = regexp.MustCompile(`[^a-z0-9]+`)

// JobName returns the name of the Kubernetes Job of a batch.
func (s Submission) JobName() string {
	name, _, _ := strings.Cut(filepath.Base(s.Batch), ".")
	name = strings.Trim(unnameable.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return strings.TrimSuffix("kvreplay-"+name[:min(len(name), 40)], "-")
}

// Kubernetes returns the manifest of an Indexed Job that counts all shards of a batch. It has no
// podFailurePolicy: with one, an index whose node is lost hangs until the node object is deleted.
func (s Submission) Kubernetes(shards int) string {
	image := s.Image
	if image == "" {
		image = "kvreplay"
	}
	var args strings.Builder
	for _, word := range append(s.command()[1:], "--parallel", strconv.Itoa(max(1, s.Cores))) {
		fmt.Fprintf(&args, "        - %q\n", word)
	}
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata:
  name: %s
spec:
  completionMode: Indexed
  completions: %d
  parallelism: %d
  backoffLimitPerIndex: 5
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 60
      containers:
      - name: kvreplay
        image: %q
        args:
%s        resources:
          requests: {cpu: "%d", memory: 1Gi}
          limits: {memory: 4Gi}
%s`, s.JobName(), shards, min(shards, 1000), image, args.String(), max(1, s.Cores), s.access())
}

// Reaches reports whether a pod can open a path: a URL, or a path below the folder of the batch file, which is
// its only volume. A relative path begins at that folder.
func (s Submission) Reaches(path string) bool {
	folder := filepath.Dir(s.Batch)
	switch {
	case storage.IsURL(path):
		return true
	case storage.IsURL(s.Batch):
		return !filepath.IsAbs(path)
	case !filepath.IsAbs(path):
		path = filepath.Join(folder, path)
	}
	below, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(below)
}

// access returns the lines that give a pod the credentials of an object store, from a secret, and the volume of
// the batch file. Traces or packs may be objects although the batch file is none.
func (s Submission) access() string {
	secret := fmt.Sprintf(`        envFrom:
        - secretRef: {name: %s, optional: true}
`, s.JobName())
	if storage.IsURL(s.Batch) {
		return secret
	}
	return secret + fmt.Sprintf(`        volumeMounts:
        - {name: batch, mountPath: %q}
      volumes:
      - name: batch
        persistentVolumeClaim: {claimName: %s}
`, filepath.ToSlash(filepath.Dir(s.Batch)), s.JobName())
}
