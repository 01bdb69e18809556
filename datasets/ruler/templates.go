package ruler

import "strings"

// The wordings are NVIDIA/RULER's (scripts/data/synthetic/constants.py, niah.py and
// qa.py; Copyright NVIDIA Corporation, Apache-2.0), to the letter: scores and traces of
// other wordings are not comparable. "assgined" is how RULER spells it.

// template is the text of a task with {names} to fill in.
type template struct{ input, prefix string }

const (
	noiseLine  = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
	niahNeedle = "One of the special magic %s for %s is: %s."
)

// niahMany asks for several values, niahOne for a single one.
var (
	niahMany = template{
		input: "Some special magic {type} are hidden within the following text. Make sure to memorize it. I will quiz you about the {type} afterwards.\n" +
			"{context}\n" +
			"What are all the special magic {type} for {query} mentioned in the provided text?",
		prefix: " The special magic {type} for {query} mentioned in the provided text are",
	}
	niahOne = template{
		input: "A special magic {type} is hidden within the following text. Make sure to memorize it. I will quiz you about the {type} afterwards.\n" +
			"{context}\n" +
			"What is the special magic {type} for {query} mentioned in the provided text?",
		prefix: " The special magic {type} for {query} mentioned in the provided text is",
	}
	vtTemplate = template{
		input: "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n" +
			"{context}\n" +
			"Question: Find all variables that are assigned the value {query} in the text above.",
		prefix: " Answer: According to the chain(s) of variable assignment in the text above, {count} variables are assgined the value {query}, they are: ",
	}
	cweTemplate = template{
		input: "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that appear most often.\n" +
			"{context}\n" +
			"Question: What are the 10 most common words in the above list?",
		prefix: " Answer: The top 10 words that appear most often in the list are:",
	}
	fweTemplate = template{
		input: "Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared coded words. " +
			"{context}\n" +
			"Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently appeared words in the above coded text?",
		prefix: " Answer: According to the coded text above, the three most frequently appeared words are:",
	}
	qaTemplate = template{
		input: "Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n" +
			"The following are given documents.\n\n" +
			"{context}\n\n" +
			"Answer the question based on the given documents. Only give me the answer and do not output any other words.\n\n" +
			"Question: {query}",
		prefix: " Answer:",
	}
)

// qaDocument is how a document is written, with its number from 1.
const qaDocument = "Document %d:\n%s"

// fill puts values in place of {names}, given in turn.
func fill(text string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
