package ruler

import "testing"

func TestEndsSentence(t *testing.T) {
	for words, want := range map[[2]string]bool{
		{"ran.", "He"}: true, {"ran?", "He"}: true, {"ran!", "He"}: true, {"ran.", "7"}: true,
		{"ran", "He"}: false, {"ran,", "He"}: false, {`")`, "He"}: false,
		{`ran."`, `"He`}: true, {"ran.)", "(He"}: true,
		{"ran.", "he"}: false, {`ran!"`, `"he`}: false, // a small letter continues the sentence
		{"Dr.", "He"}: false, {"(e.g.", "He"}: false, {"etc?", "He"}: true, // abbreviations end with a full stop
		{"J.", "He"}: false, {"I.", "He"}: true, {"a.", "He"}: true, {"J!", "He"}: true, // I is no initial
	} {
		if got := endsSentence(words[0], words[1]); got != want {
			t.Errorf("between %q and %q: %v, want %v", words[0], words[1], got, want)
		}
	}
}
