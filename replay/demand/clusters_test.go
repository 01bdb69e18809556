package demand

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// Clusters are derived from lists in which their tokens are neighbours, in any order of clusters.
func TestChains(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 96))
		var clusters [][]int32
		of := make([]int32, 60)
		for t := range of {
			of[t] = int32(r.IntN(12))
		}
		for c := range int32(12) {
			var tokens []int32
			for t, x := range of {
				if x == c {
					tokens = append(tokens, int32(t))
				}
			}
			clusters = append(clusters, tokens)
		}
		s := new(trace.Stream)
		s.Reset(trace.StreamInfo{PromptLen: 60})
		for step := range int32(60) {
			var list []int32
			for _, c := range r.Perm(12) {
				list = append(list, clusters[c]...)
			}
			s.Append(trace.Row{Step: step, Indices: list[:min(len(list), 30)]})
		}
		got := chains(s, 30)
		for a := range of {
			for b := range a {
				if (of[a] == of[b]) != (got[a] == got[b]) {
					t.Fatalf("seed %d: tokens %d and %d: one cluster %v, read as one %v", seed, b, a, of[a] == of[b], got[a] == got[b])
				}
			}
		}
	}
}

// ParseClusters refuses files that hold no clusters.
func TestParseClustersErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	for text, want := range map[string]string{
		"PAR1": "line 1: expected an object",
		`{"request_id":"a","layer_id":0,"token_clusters":[0,-2]}`:                                      "token 1 is in cluster -2",
		`{"request_id":"a","layer_id":0,"token_clusters":[0,null]}`:                                    "null, expected numbers",
		`{"request_id":"a","token_clusters":[0]}`:                                                      "expected request_id, layer_id and token_clusters",
		`{"request_id":"a","layer_id":0}`:                                                              "expected request_id, layer_id and token_clusters",
		`{"request_id":"a","layer_id":0,"clusters":[0]}`:                                               "unknown field",
		`{"request_id":"a","layer_id":0,"token_clusters":[0]} x`:                                       "1 bytes follow",
		"{\"request_id\":\"a\",\"layer_id\":0,\"token_clusters\":[]}\n\n":                              "line 2: expected",
		strings.Repeat("{\"request_id\":\"a\",\"layer_id\":0,\"head\":1,\"token_clusters\":[3]}\n", 2): "line 2: request \"a\" layer 0 head 1 appears twice",
	} {
		fatal.If(t, os.WriteFile(path, []byte(text), 0o644))
		if _, err := ParseClusters(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "bad.jsonl") {
			t.Errorf("%s: expected an error with %q, got %v", text, want, err)
		}
	}
	for text, want := range map[string]string{"lists,page=0": "page of 1", "nothing.jsonl": "no such file"} {
		if _, err := ParseClusters(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("clusters %q: expected an error with %q, got %v", text, want, err)
		}
	}
}

// FuzzClusters checks that any text is read or refused.
func FuzzClusters(f *testing.F) {
	f.Add([]byte("{\"request_id\":\"a\",\"layer_id\":0,\"token_clusters\":[0,0,-1,3]}\n{\"request_id\":\"b\",\"layer_id\":1,\"head\":2,\"token_clusters\":[]}\n"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		streams, err := decodeClusters(text)
		for k, of := range streams {
			for _, c := range of {
				if err != nil || c < -1 {
					t.Fatalf("%v: cluster %d, %v", k, c, err)
				}
			}
		}
	})
}
