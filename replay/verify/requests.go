package verify

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/trace"
)

// errAmbiguous reports a list of requests with several readings.
const errAmbiguous = missing("the trace's request ids contain commas, so the list is ambiguous")

// requestsOf reads the requests of a row, which are joined by commas. nil means all. An id may
// contain commas, so the ids of the trace decide.
func requestsOf(text string, f *trace.File) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	known := map[string]bool{}
	for _, s := range f.Streams() {
		known[s.Request] = true
	}
	ids, err := split(text, known)
	if err != nil {
		return nil, fmt.Errorf("requests %q: %w", text, err)
	}
	return ids, nil
}

// split cuts a list at commas such that the parts are known ids. From the end it counts the
// readings of the words after each comma.
func split(text string, known map[string]bool) (ids []string, err error) {
	words := strings.Split(text, ",")
	longest := 1
	for id := range known {
		longest = max(longest, 1+strings.Count(id, ","))
	}
	ways, next := make([]int, len(words)+1), make([]int, len(words))
	ways[len(words)] = 1
	for i := len(words) - 1; i >= 0; i-- {
		for j := i + 1; j <= min(i+longest, len(words)); j++ {
			if ways[j] > 0 && known[strings.Join(words[i:j], ",")] {
				ways[i], next[i] = min(2, ways[i]+ways[j]), j
			}
		}
	}
	switch ways[0] {
	case 0:
		return nil, errors.New("expected request ids of the trace")
	case 2:
		return nil, errAmbiguous
	}
	for i := 0; i < len(words); i = next[i] {
		ids = append(ids, strings.Join(words[i:next[i]], ","))
	}
	return ids, nil
}
