package longbench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// The counts are LongBench's own: 21 sets of 4,750 rows, 13 of LongBench-E, six sets
// without a chat template.
func TestSets(t *testing.T) {
	rows, e, plain := 0, 0, []string{}
	for _, s := range Sets() {
		rows += s.Rows
		if s.E {
			e++
		}
		if !s.ChatTemplate {
			plain = append(plain, s.Name)
		}
		if text := templates[s.Name]; strings.Count(text, "{context}") != 1 || strings.Count(text, "{input}") > 1 {
			t.Errorf("%s: prompt %q", s.Name, text)
		}
	}
	if len(sets) != 21 || len(templates) != 21 || rows != 4750 || e != 13 {
		t.Errorf("%d sets, %d prompts, %d rows, %d of LongBench-E, want 21, 21, 4750, 13", len(sets), len(templates), rows, e)
	}
	if got := strings.Join(plain, " "); got != "trec triviaqa samsum lsht lcc repobench-p" {
		t.Errorf("without chat template: %s", got)
	}
}

// Tokens to generate are copied from the published file by hand.
func TestMaxNewTokens(t *testing.T) {
	got := map[int][]string{}
	for _, s := range Sets() {
		got[s.MaxNewTokens] = append(got[s.MaxNewTokens], s.Name)
	}
	want := map[int][]string{
		32:  {"hotpotqa", "2wikimqa", "musique", "triviaqa", "passage_count", "passage_retrieval_en", "passage_retrieval_zh"},
		64:  {"multifieldqa_en", "multifieldqa_zh", "trec", "lsht", "lcc", "repobench-p"},
		128: {"narrativeqa", "qasper", "dureader", "samsum"},
		512: {"gov_report", "qmsum", "multi_news", "vcsum"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A model answers to the text after the context, so an additional blank makes another prompt. The
// ends are copied from the published file by hand.
func TestEnds(t *testing.T) {
	for name, want := range map[string]string{
		"narrativeqa":          "Question: I\n\nAnswer:",
		"multifieldqa_zh":      "问题：I\n回答：",
		"dureader":             "问题：I\n回答：",
		"vcsum":                "C\n\n会议总结：",
		"passage_count":        "The final answer is: ",
		"passage_retrieval_en": "\n\nThe answer is: ",
		"passage_retrieval_zh": "\n\n答案是：",
		"trec":                 "C\nI",
		"triviaqa":             "C\n\nI",
		"samsum":               "C\n\nI",
		"lsht":                 "C\nI",
		"lcc":                  "Please complete the code given below. \nCNext line of code:\n",
		"repobench-p":          "Please complete the code given below. \nCINext line of code:\n",
	} {
		s, ok := Lookup(name)
		if got := s.Fill("C", "I"); !ok || !strings.HasSuffix(got, want) {
			t.Errorf("%s ends %q, want %q", name, got, want)
		}
	}
}

// The prompts, as THUDM/LongBench writes them with an indent of four blanks, are 4979 characters.
func TestPublished(t *testing.T) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	n := len("{\n") + len("}")
	for i, s := range sets {
		b.Reset()
		fatal.If(t, e.Encode(templates[s.Name]))
		text := strings.TrimSuffix(b.String(), "\n")
		n += len(`    "": ,`+"\n") + len([]rune(s.Name)) + len([]rune(text))
		if i == len(sets)-1 {
			n--
		}
	}
	if n != 4979 {
		t.Errorf("%d characters, want 4979", n)
	}
	if sum := sha256.Sum256([]byte(promptV2)); len(promptV2) != 262 {
		t.Errorf("prompt of v2: %d characters (%s), want 262", len(promptV2), hex.EncodeToString(sum[:4]))
	}
}

// Text in a context that looks like a field is not filled.
func TestFill(t *testing.T) {
	s, _ := Lookup("repobench-p")
	if got := s.Fill("x := {input}{}", "{context}\n"); got != "Please complete the code given below. \nx := {input}{}{context}\nNext line of code:\n" {
		t.Errorf("%q", got)
	}
}
