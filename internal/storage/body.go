package storage

import (
	"io"
	"net/http"
	"sync"
)

// bodies sends requests whose bodies are not read after the answer. A store may answer before it has read a
// body, as if it refuses a request. Then net/http still reads the body, while the client sends its
// bytes again from the start.
type bodies struct{ http.RoundTripper }

// RoundTrip sends a request.
func (t bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.RoundTripper.RoundTrip(r)
	}
	b := &body{ReadCloser: r.Body}
	r = r.WithContext(r.Context()) // a copy
	r.Body = b
	defer b.end()
	return t.RoundTripper.RoundTrip(r)
}

// body is the body of a request until its answer.
type body struct {
	io.ReadCloser
	mu    sync.Mutex
	ended bool
}

// Read reads bytes of the body. After the answer it fails, so that the connection of a body that was not
// sent whole is closed.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.ReadCloser.Read(p)
}

func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}
