package policytest

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/kvreplay/kvreplay/policies"
)

var policyName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// entryHolds checks the table entry itself and against the methods.
func (s *suite) entryHolds() error {
	e := &s.entry
	switch {
	case !policyName.MatchString(e.Name):
		return fmt.Errorf("the entry's Name %q: expected lower case words with hyphens, as users type it", e.Name)
	case e.Summary == "" || strings.Contains(e.Summary, "\n") || strings.HasSuffix(e.Summary, "."):
		return fmt.Errorf("the entry's Summary %q: expected the rule in one line, without a full stop", e.Summary)
	case e.Source == "":
		return errors.New("the entry's Source is empty: say where the rule comes from (paper, section, equation), or that it is new")
	case e.Traits.Memory == "" || e.Traits.Cost == "":
		return errors.New(`the entry's Traits.Memory and Traits.Cost are empty: state per block of the context and per change of the demand, as text ("8 B", "O(1)")`)
	case e.New == nil:
		return errors.New("the entry's New is nil: policies.NoOptions makes one for a policy without options")
	}
	if err := s.parse(); err != nil {
		return fmt.Errorf("the entry's New: %w", err)
	}
	if err := s.optionsParseBack(); err != nil {
		return err
	}
	if err := s.traitsFit(); err != nil {
		return err
	}
	return s.ruleFits()
}

// lossyNeeds are the columns that a lossy policy can ask for.
const lossyNeeds = policies.NeedCandidates | policies.NeedAttention | policies.NeedPromptMass | policies.NeedWindows

// ruleFits checks that the policy has the suite's miss rule.
func (s *suite) ruleFits() error {
	_, prompt := s.make().(policies.Lossy)
	switch lossy := s.entry.Traits.Lossy; {
	case s.rule == fetch && prompt:
		return fmt.Errorf("the policy has a method Prompt, as lossy ones have (Traits.Lossy is %v): policytest.RunLossy checks it, Run is for exact policies", lossy)
	case s.rule == fetch && lossy:
		return errors.New("the entry's Traits.Lossy is true, but the policy has no method Prompt(*policies.Prompt): it is an exact one, whose victims are fetched again")
	case s.rule == lose && !prompt:
		return errors.New("the policy has no method Prompt(*policies.Prompt): a lossy policy is handed its prompt")
	case s.rule == lose && !lossy:
		return errors.New("the entry's Traits.Lossy is false: what the policy drops would be fetched again, and it would be ranked with exact ones")
	case s.rule == lose && s.needs&^lossyNeeds != 0:
		return errors.New("the policy's Needs has columns of exact policies, which stay empty for a lossy one: it can ask for NeedCandidates, NeedAttention, NeedPromptMass and NeedWindows")
	}
	return nil
}

func (s *suite) optionsParseBack() error {
	_, canonical, err := s.entry.New(s.spec.Options)
	if err != nil || canonical != s.spec.Options {
		return fmt.Errorf("options %q: New calls them %q, which it then reads as %q (%v); the canonical text is kept with results and must parse back", s.options, s.spec.Options, canonical, err)
	}
	const nonsense = "no such option=\x00"
	if _, _, err := s.entry.New(nonsense); err == nil {
		return fmt.Errorf("the entry's New accepts the options %q: an unknown option is an error (policies.ParseOptions, policies.NoOptions)", nonsense)
	}
	if s.spec.Options != "" && s.entry.Usage == "" {
		return fmt.Errorf("the entry's Usage is empty, but there are options: %q", s.spec.Options)
	}
	return nil
}

// traitsFit checks that the traits agree with the methods.
func (s *suite) traitsFit() error {
	a, b := s.make(), s.make()
	if a == nil || b == nil {
		return errors.New("the factory that New returns makes nil")
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.Pointer && v.Type().Elem().Size() > 0 && v.Pointer() == reflect.ValueOf(b).Pointer() {
		return errors.New("the factory that New returns makes one instance and gives it out at every call: each worker needs its own")
	}
	_, bypasses := a.(policies.Bypasser)
	future := s.needs&policies.NeedNext != 0
	traits := s.entry.Traits
	switch {
	case future && !traits.Offline:
		return errors.New("the policy asks for NeedNext (the future), but Traits.Offline is false: a policy that sees the future is a bound, never ranked, and must say so")
	case !future && traits.Offline:
		return errors.New("the entry's Traits.Offline is true, but the policy does not ask for NeedNext: it cannot see the future and should be ranked")
	case bypasses && !traits.Bypasses:
		return errors.New("the policy has a method Bypass, but Traits.Bypasses is false: it would be held against opt, which does not bound it")
	case !bypasses && traits.Bypasses:
		return errors.New("the entry's Traits.Bypasses is true, but the policy has no method Bypass(n int, dst []int32) []int32: opt bounds it, not opt-bypass")
	}
	return nil
}
