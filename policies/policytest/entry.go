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
		return fmt.Errorf("the entry's Name %q: expected lower case words with hyphens", e.Name)
	case e.Summary == "" || strings.Contains(e.Summary, "\n") || strings.HasSuffix(e.Summary, "."):
		return fmt.Errorf("the entry's Summary %q: expected the rule in one line, without a full stop", e.Summary)
	case e.Source == "":
		return errors.New("the entry's Source is empty: state the paper, section and equation, or that the rule is new")
	case e.Traits.Memory == "" || e.Traits.Cost == "":
		return errors.New(`the entry's Traits.Memory or Traits.Cost is empty: state the memory per block ("8 B") and the cost per change ("O(1)")`)
	case e.New == nil:
		return errors.New("the entry's New is nil: use policies.NoOptions for a policy without options")
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

// lossyNeeds are the columns that a lossy policy may need.
const lossyNeeds = policies.NeedCandidates | policies.NeedAttention | policies.NeedPromptMass | policies.NeedWindows

func (s *suite) ruleFits() error {
	_, prompt := s.make().(policies.Lossy)
	switch lossy := s.entry.Traits.Lossy; {
	case s.rule == fetch && prompt:
		return fmt.Errorf("the policy has the method Prompt of lossy policies (Traits.Lossy is %v): check it with policytest.RunLossy", lossy)
	case s.rule == fetch && lossy:
		return errors.New("the entry's Traits.Lossy is true, but the policy is exact: it has no method Prompt(*policies.Prompt)")
	case s.rule == lose && !prompt:
		return errors.New("the policy has no method Prompt(*policies.Prompt), which a lossy policy needs")
	case s.rule == lose && !lossy:
		return errors.New("the entry's Traits.Lossy is false: set it, or dropped blocks are fetched again and it ranks with exact policies")
	case s.rule == lose && s.needs&^lossyNeeds != 0:
		return errors.New("the policy's Needs has columns that are empty for lossy policies: use only NeedCandidates, NeedAttention, NeedPromptMass and NeedWindows")
	}
	return nil
}

func (s *suite) optionsParseBack() error {
	_, canonical, err := s.entry.New(s.spec.Options)
	if err != nil || canonical != s.spec.Options {
		return fmt.Errorf("options %q: New returns the canonical text %q, which parses to %q (%v): it must parse to itself", s.options, s.spec.Options, canonical, err)
	}
	const nonsense = "no such option=\x00"
	if _, _, err := s.entry.New(nonsense); err == nil {
		return fmt.Errorf("the entry's New accepts the unknown option %q: use policies.ParseOptions or policies.NoOptions", nonsense)
	}
	if s.spec.Options != "" && s.entry.Usage == "" {
		return fmt.Errorf("the entry's Usage is empty, but the policy has options: %q", s.spec.Options)
	}
	return nil
}

func (s *suite) traitsFit() error {
	a, b := s.make(), s.make()
	if a == nil || b == nil {
		return errors.New("the factory of New returns nil")
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.Pointer && v.Type().Elem().Size() > 0 && v.Pointer() == reflect.ValueOf(b).Pointer() {
		return errors.New("the factory of New returns the same instance twice: each worker needs its own")
	}
	_, bypasses := a.(policies.Bypasser)
	future := s.needs&policies.NeedNext != 0
	traits := s.entry.Traits
	switch {
	case future && !traits.Offline:
		return errors.New("the policy needs NeedNext (the future), but Traits.Offline is false: set it, because the policy is a bound")
	case !future && traits.Offline:
		return errors.New("the entry's Traits.Offline is true, but the policy does not need NeedNext: clear it, so that the policy is ranked")
	case bypasses && !traits.Bypasses:
		return errors.New("the policy has a method Bypass, but Traits.Bypasses is false: set it, because opt does not bound the policy")
	case !bypasses && traits.Bypasses:
		return errors.New("the entry's Traits.Bypasses is true, but the policy has no method Bypass(n int, dst []int32) []int32: clear it")
	}
	return nil
}
