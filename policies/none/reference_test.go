package none_test

import (
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

// reference keeps nothing.
type reference struct{}

func (reference) Reset(policies.Scope) {}

func (reference) Step(*policytest.Step) {}

func (reference) KeepOut(_ int, demand []int32) []int32 { return demand }

func (reference) Victims(_ int, outside []int32) []int32 { return outside }
