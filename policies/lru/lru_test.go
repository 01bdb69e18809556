package lru_test

import (
	"testing"

	"github.com/kvreplay/kvreplay/policies/lru"
	"github.com/kvreplay/kvreplay/policies/policytest"
)

func newReference() policytest.Reference { return new(reference) }

func TestConformance(t *testing.T) { policytest.Run(t, lru.Entry, "", newReference) }

func FuzzConformance(f *testing.F) { policytest.Fuzz(f, lru.Entry, "", newReference) }
