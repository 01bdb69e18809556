package storage

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A body is read up to the answer and not after it.
func TestBodyEndsWithAnswer(t *testing.T) {
	var sent *http.Request
	transport := bodies{trip(func(r *http.Request) (*http.Response, error) {
		sent = r
		p := make([]byte, 4)
		if _, err := io.ReadFull(r.Body, p); err != nil || string(p) != "some" {
			t.Errorf("before the answer: %q, %v", p, err)
		}
		return &http.Response{StatusCode: http.StatusServiceUnavailable}, nil
	})}
	content := strings.NewReader("some bytes")
	r, err := http.NewRequest(http.MethodPut, "http://store/object", content)
	fatal.If(t, err)
	answer, err := transport.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("answer %v, %v", answer, err)
	}
	if n, err := sent.Body.Read(make([]byte, 4)); n != 0 || err == nil || content.Len() != len(" bytes") {
		t.Errorf("after the answer: %d bytes, %v", n, err)
	}
}
