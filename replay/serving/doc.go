// Package serving simulates an LLM serving engine: requests arrive, wait, run in batches that change
// at every iteration, and share the GPU's memory. A run is a pure function of its requests and
// options. Times are whole nanoseconds, so equal input gives equal bytes.
//
// Run is the simulation. A Scheduler decides which requests run. A Pricer states the time of an
// iteration, and NewPricer makes one from a machine and a model. A Summary reduces the rows of a run
// to percentiles. README.md shows the command and the errors against a recorded run.
package serving
