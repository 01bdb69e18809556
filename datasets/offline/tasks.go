package offline

import "slices"

// Task is a kind of prompt.
type Task struct {
	Name      string
	StandsFor string // set of LongBench
	Summary   string // what is asked
	Reference string // where the answer comes from

	open func(s *sources, budget int) (generator, error)
}

// tasks are all that there are.
var tasks = []Task{
	{"lcc_go", "lcc", "the next line of a Go file", "the line that follows in the file", openLccGo},
	{"lcc_python", "lcc", "the next line of a file of Python's standard library", "the line that follows in the file", openLccPython},
	{"repobench_go", "repobench-p", "the next line of a Go file, given declarations of other files, the one that the line uses among them", "the line that follows in the file", openRepobench},
	{"summary_go", "gov_report", "a package's documentation, given its source", "the package's own documentation, its first three paragraphs, which the prompt lacks", openSummaryGo},
	{"multi_summary_go", "multi_news", "what each of several packages is for, given the documentation of their declarations", "the first sentence of each package's own documentation, which the prompt lacks", openMultiSummary},
	{"passage_retrieval_go", "passage_retrieval_en", "the paragraph that a summary is of", "the paragraph whose own first sentence, which it lacks, is the summary", openRetrieval},
	{"hotpotqa_go", "hotpotqa", "what a parameter's type is for, the function in one passage and the type in another", "the first sentence of the type's documentation", openHotpot},
	{"trec_go", "trec", "the package of a documentation comment, after labelled examples", "the package that the comment is from", openTrec},
	{"qa_text", "multifieldqa_en", "how the part of a text under a heading begins", "the first sentence under the heading", openQuestions},
	{"summary_text", "gov_report", "a summary of an excerpt of a text", "the first sentences of at most twelve of the excerpt's parts: an extract, no abstract by a person", openSummaryText},
	{"passage_count_text", "passage_count", "the number of different paragraphs among repeated ones", "the number by construction", openCount},
}

// Tasks returns all tasks in order.
func Tasks() []Task { return slices.Clone(tasks) }
