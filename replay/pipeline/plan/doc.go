// Package plan searches the fastest way to serve requests: the batch, the schedule, and the policy with
// its capacity. Package pipeline prices each of them. Start with these files:
//
//   - plan.go searches a batch for each profile and schedule. The batch must fit into memory and meet
//     the SLO.
//   - report.go groups and ranks the results, and writes them.
package plan
