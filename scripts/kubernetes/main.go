// Command kubernetes reads the manifest of a Job on stdin with the types of Kubernetes, and prints
// the Job as JSON. A field that Kubernetes does not have is an error. The test of kvreplay batch plan
// --kubernetes runs it. It is a module of its own, so that kvreplay does not require Kubernetes.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var job batchv1.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		return err
	}
	if job.APIVersion != "batch/v1" || job.Kind != "Job" {
		return fmt.Errorf("expected a Job of batch/v1, got a %s of %s", job.Kind, job.APIVersion)
	}
	return json.NewEncoder(out).Encode(job)
}
