// Package advice turns a plan (package plan) into an answer for a serving engineer: how large a cache
// on the GPU should be, which policy and batch to run, and the options of serving engines that give
// this configuration. It calls a policy better than LRU only if two tests separate them: the errors of
// the time model, and the requests of the trace. README.md describes the answer.
package advice
