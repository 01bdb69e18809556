package ruler

import (
	"slices"
	"strings"
	"testing"
)

// The prompts below are written by hand from the templates. If n leaves one choice only, positions
// are known without the generator.

func TestGoldenNiah(t *testing.T) {
	h := &hunt{
		niah:    niah{haystack: noise, key: words, value: numbers},
		needles: []string{"One of the special magic numbers for shy-fox is: 1234567."},
		query:   "shy-fox", outputs: []string{"1234567"},
	}
	want := `A special magic number is hidden within the following text. Make sure to memorize it. I will quiz you about the number afterwards.
One of the special magic numbers for shy-fox is: 1234567.
The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.
What is the special magic number for shy-fox mentioned in the provided text? The special magic number for shy-fox mentioned in the provided text is`
	if d := h.prompt(1); d.Input+d.Prefix != want {
		t.Errorf("got\n%s\nwant\n%s", d.Input+d.Prefix, want)
	}
}

func TestGoldenNiahEssay(t *testing.T) {
	h := &hunt{
		niah:    niah{haystack: essays, key: words, value: uuids},
		essay:   newEssay("Mr. Fox ran.\nHe \"slept.\" Then,  e.g. at noon, he woke!"),
		needles: []string{"N1.", "N2."}, query: "a, and b", outputs: []string{"1", "2"},
	}
	// Sentences: "Mr. Fox ran." | He "slept." | "Then, e.g. at noon, he woke!". After them the text
	// begins again.
	if got, want := h.essay.sentences(13), []string{"Mr. Fox ran.", `He "slept."`, "Then, e.g. at noon, he woke!", "Mr. Fox"}; !slices.Equal(got, want) {
		t.Errorf("sentences %q, want %q", got, want)
	}
	if got, want := insert(h.essay.sentences(6), h.needles, []int{3, 0}), []string{"N2.", "Mr. Fox ran.", `He "slept."`, "Then,", "N1."}; !slices.Equal(got, want) {
		t.Errorf("with needles %q, want %q", got, want)
	}
	d := h.prompt(6)
	if want := "Some special magic uuids are hidden within the following text. Make sure to memorize it. I will quiz you about the uuids afterwards.\n"; !strings.HasPrefix(d.Input, want) {
		t.Errorf("begins %q", d.Input)
	}
	if want := "\nWhat are all the special magic uuids for a, and b mentioned in the provided text? The special magic uuids for a, and b mentioned in the provided text are"; !strings.HasSuffix(d.Input+d.Prefix, want) {
		t.Errorf("ends %q", d.Input+d.Prefix)
	}
}

func TestGoldenChain(t *testing.T) {
	want := `Memorize and track the chain(s) of variable assignment hidden in the following text.

VAR AB = 12345
The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.
VAR CD = VAR AB 
The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.
Question: Find all variables that are assigned the value 12345 in the text above. Answer: According to the chain(s) of variable assignment in the text above, 2 variables are assgined the value 12345, they are: `
	if d := vtDraft([]string{"AB", "CD"}, "12345", []string{"VAR AB = 12345", "VAR CD = VAR AB "}, 2, draws{}); d.Input+d.Prefix != want {
		t.Errorf("got\n%s\nwant\n%s", d.Input+d.Prefix, want)
	}
}

func TestGoldenWords(t *testing.T) {
	d := cweDraft([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, repeats{common: 1}, draws{}, "order")
	list := between(t, d.Input, "Memorize the ones that appear most often.\n", "\nQuestion: What are the 10 most common words in the above list?")
	parts := strings.Fields(list)
	for i := range 10 {
		if parts[2*i] != []string{"1.", "2.", "3.", "4.", "5.", "6.", "7.", "8.", "9.", "10."}[i] {
			t.Errorf("numbered %q", list)
		}
	}
	if d.Prefix != " Answer: The top 10 words that appear most often in the list are:" {
		t.Errorf("prefix %q", d.Prefix)
	}
	// ⌊3 / ζ(2)⌋ = 1 and ⌊3 / 4 ζ(2)⌋ = 0: one word, in one order.
	want := "Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared coded words. ...\n" +
		"Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently appeared words in the above coded text?" +
		" Answer: According to the coded text above, the three most frequently appeared words are:"
	if d := fweDraft([]string{"...", "a", "b", "c"}, 3, draws{}); d.Input+d.Prefix != want || !slices.Equal(d.Outputs, []string{"a", "b", "c"}) {
		t.Errorf("got\n%s\n%v", d.Input+d.Prefix, d.Outputs)
	}
}

func TestGoldenQuestion(t *testing.T) {
	set := &questions{docs: []string{"x", "Title\ny"}, list: []question{{text: "Who?", answers: []string{"I"}, gold: []int{1}}}}
	q := set.sample(0, draws{})
	want := `Answer the question based on the given documents. Only give me the answer and do not output any other words.

The following are given documents.

Document 1:
Title
y

Answer the question based on the given documents. Only give me the answer and do not output any other words.

Question: Who? Answer:`
	if d := q.Prompt(1); d.Input+d.Prefix != want {
		t.Errorf("got\n%s\nwant\n%s", d.Input+d.Prefix, want)
	}
	if d := q.Prompt(5); strings.Count(d.Input, "Title\ny") != 3 || !strings.Contains(d.Input, "\n\nDocument 5:\n") {
		t.Errorf("documents do not repeat:\n%s", d.Input)
	}
}
