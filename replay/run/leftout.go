package run

import (
	"fmt"
	"slices"
	"strings"
)

// LeftOut is a policy that Options.SkipUnable left out of a run.
type LeftOut struct {
	Policy   string
	Capacity string // at which it cannot run, empty for all
	Why      string // a sentence about the policy, "it needs scores, the trace has none"
}

// String is the whole reason.
func (l LeftOut) String() string {
	at := ""
	if l.Capacity != "" {
		at = " at " + l.Capacity
	}
	return fmt.Sprintf("%s left out%s: %s", l.Policy, at, l.Why)
}

// SummaryOf is one line about policies that were left out, grouped by the beginning of their
// reasons, or nothing for none: "2 policies left out: needs scores (h2o, score-ewma)".
func SummaryOf(list []LeftOut) string {
	if len(list) == 0 {
		return ""
	}
	var reasons, policies []string
	of := map[string][]string{}
	for _, l := range list {
		reason := l.reason()
		if of[reason] == nil {
			reasons = append(reasons, reason)
		}
		name, options, _ := strings.Cut(l.Policy, ":")
		if strings.Trim(options, "0123456789") == "" { // window:2, but not the defaults of lirs:hir=0.01
			name = l.Policy
		}
		if l.Capacity != "" {
			name += " at " + l.Capacity
		}
		of[reason] = append(of[reason], name)
		if !slices.Contains(policies, l.Policy) {
			policies = append(policies, l.Policy)
		}
	}
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%s (%s)", reason, strings.Join(of[reason], ", "))
	}
	what := "1 policy"
	if len(policies) > 1 {
		what = fmt.Sprintf("%d policies", len(policies))
	}
	return fmt.Sprintf("%s left out: %s", what, strings.Join(reasons, ", "))
}

// reason is the first clause of Why without its subject: "needs scores".
func (l LeftOut) reason() string {
	reason := strings.TrimPrefix(l.Why, "it ")
	for _, end := range []string{", ", "; ", " ("} {
		reason, _, _ = strings.Cut(reason, end)
	}
	return reason
}
