package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// kubernetesJob is the part of a Job that the test uses.
type kubernetesJob struct {
	Metadata struct{ Name string }
	Spec     struct {
		CompletionMode       string `yaml:"completionMode" json:"completionMode"`
		Completions          int
		BackoffLimitPerIndex int `yaml:"backoffLimitPerIndex" json:"backoffLimitPerIndex"`
		PodFailurePolicy     any `yaml:"podFailurePolicy" json:"podFailurePolicy"`
		Template             struct {
			Spec struct {
				RestartPolicy string `yaml:"restartPolicy" json:"restartPolicy"`
				Containers    []struct {
					Image        string
					Args         []string
					VolumeMounts []struct {
						MountPath string `yaml:"mountPath" json:"mountPath"`
					} `yaml:"volumeMounts" json:"volumeMounts"`
				}
			}
		}
	}
}

// The manifest is a Job of Kubernetes: its own types read it and know every field.
func TestKubernetesReadsTheManifest(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the types of Kubernetes")
	}
	t.Parallel()
	path, shards := planBatch(t, everyChunk, deepTrace, "--policy", "lru", "--capacity", "2x")
	manifest := must(t, "batch", "plan", path, "--kubernetes", "--image", "registry.example/kvreplay:1", "--cpus", "2")
	decode := func(manifest string) (string, error) {
		var stderr bytes.Buffer
		run := exec.Command("go", "run", ".")
		run.Dir, run.Stdin, run.Stderr = filepath.Join(packageFolder, "../../scripts/kubernetes"), strings.NewReader(manifest), &stderr
		out, err := run.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, stderr.String())
		}
		return string(out), err
	}
	out, err := decode(manifest)
	if err != nil && !strings.Contains(err.Error(), "error unmarshaling") && os.Getenv("KVREPLAY_REQUIRE_KUBERNETES") != "1" {
		t.Skipf("no test with the types of Kubernetes, which cannot be compiled here (KVREPLAY_REQUIRE_KUBERNETES=1 makes this an error): %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	var job kubernetesJob
	fatal.If(t, json.Unmarshal([]byte(out), &job))
	s := job.Spec
	if s.CompletionMode != "Indexed" || s.Completions != shards || s.BackoffLimitPerIndex < 1 || s.PodFailurePolicy != nil ||
		s.Template.Spec.RestartPolicy != "Never" || s.Template.Spec.Containers[0].Image != "registry.example/kvreplay:1" {
		t.Errorf("the job is %+v", job)
	}
	if _, err := decode(strings.Replace(manifest, "completionMode", "completionsMode", 1)); err == nil || !strings.Contains(err.Error(), "completionsMode") {
		t.Errorf("a field that Kubernetes does not have is accepted: %v", err)
	}
}

// The container's command counts all shards as the Job would run it: with the index in the
// environment, and with no other variable of the test.
func TestKubernetesContainerCommand(t *testing.T) {
	bin := program(t)
	args := []string{deepTrace, "--policy", "lru,opt", "--capacity", "2x"}
	path := filepath.Join(t.TempDir(), "My Grid.batch")
	manifest := must(t, append([]string{"batch", "plan", "-o", path, "--kubernetes", "--rate", "3ns", "--hours", everyChunk}, args...)...)
	var job kubernetesJob
	fatal.If(t, yaml.Unmarshal([]byte(manifest), &job))
	if want := "kvreplay-my-grid"; job.Metadata.Name != want {
		t.Errorf("the job is called %q, expected %q", job.Metadata.Name, want)
	}
	container := job.Spec.Template.Spec.Containers[0]
	if mounted := container.VolumeMounts[0].MountPath; mounted != filepath.Dir(path) {
		t.Errorf("the volume is mounted at %s, the batch file is %s", mounted, path)
	}
	for index := range job.Spec.Completions {
		cmd := exec.Command(bin, container.Args...)
		cmd.Dir, cmd.Env = t.TempDir(), []string{fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index)}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("index %d: %v\n%s", index, err, out)
		}
	}
	one, many := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "many")
	must(t, append([]string{"replay", "--out", one}, args...)...)
	must(t, "batch", "merge", path, "--out", many)
	sameTree(t, one, many)
}
