// Package s3test runs a real S3 server for tests: versitygw, whose buckets are folders.
package s3test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/storage"
)

// gateway is the module and version of the server.
const gateway = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// require is the variable that makes an absent server an error.
const require = "KVREPLAY_REQUIRE_S3"

// Credentials of the server's only user.
const (
	AccessKey = "kvreplay-test"
	SecretKey = "kvreplay-secret"
)

// Server is a running server.
type Server struct {
	Root     string // folder of buckets
	Endpoint string // http://HOST:PORT
}

// Start starts a server and sets the AWS variables of the test, so that programs find it. The server
// is built once and kept in the user's cache. Unless it is there, the test is skipped, or builds it
// with KVREPLAY_REQUIRE_S3=1.
func Start(t testing.TB) *Server {
	t.Helper()
	program, err := build()
	switch {
	case err != nil && os.Getenv(require) == "1":
		t.Fatalf("%s=1, but: %v", require, err)
	case err != nil:
		t.Skipf("no S3 server (%s=1 builds it, in 2 minutes): %v", require, err)
	}
	s := &Server{Root: t.TempDir()}
	log, err := os.Create(filepath.Join(t.TempDir(), "versitygw.log"))
	fatal.If(t, err)
	t.Cleanup(func() { log.Close() })
	for range 3 { // another program may take the port meanwhile
		if err = s.start(t, program, log); err == nil {
			break
		}
	}
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

func (s *Server) start(t testing.TB, program string, log *os.File) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	l.Close()
	c := exec.Command(program, "--port", address, "--access", AccessKey, "--secret", SecretKey, "--keep-alive", "--quiet", "posix", s.Root)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
	})
	for range 1200 {
		select {
		case <-ended:
			return fmt.Errorf("versitygw ended, instead of listening at %s", address)
		case <-time.After(50 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			s.Endpoint = "http://" + address
			return s.check(t)
		}
	}
	return fmt.Errorf("versitygw does not listen at %s", address)
}

// check returns an error if another program listens at the endpoint. That one does not know a bucket of the
// server, whose name has the number of this process.
func (s *Server) check(t testing.TB) error {
	name := fmt.Sprintf("of-process-%d", os.Getpid())
	folder := filepath.Join(s.Root, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	defer os.Remove(folder)
	s.Use(t, s.Endpoint)
	b, err := storage.At(storage.Scheme + name)
	if err == nil {
		_, err = b.List(t.Context(), "")
	}
	return err
}

// Use sets the AWS variables of the test to an endpoint and the credentials of the server.
func (s *Server) Use(t testing.TB, endpoint string) {
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": AccessKey, "AWS_SECRET_ACCESS_KEY": SecretKey,
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_ENDPOINT_URL_S3": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(s.Root, "no-credentials"),
	} {
		t.Setenv(name, value)
	}
}

// Bucket makes a bucket and uploads objects to it, by their names.
func (s *Server) Bucket(t testing.TB, name string, objects map[string][]byte) {
	t.Helper()
	fatal.If(t, os.MkdirAll(filepath.Join(s.Root, name), 0o755))
	for key, data := range objects {
		s.Put(t, name, key, data)
	}
}

// Put uploads an object. It replaces an older one.
func (s *Server) Put(t testing.TB, bucket, key string, data []byte) {
	t.Helper()
	b, err := storage.At(storage.Scheme + bucket)
	if err == nil {
		err = b.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)))
	}
	fatal.If(t, err)
}

// Proxy starts a proxy in front of the server and sets the endpoint of the test to it. It calls
// intercept for each request, with the handler that passes it on.
func (s *Server) Proxy(t testing.TB, intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	fatal.If(t, err)
	pass := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = p.In.Host // which the signature covers
		},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { intercept(w, r, pass) }))
	t.Cleanup(p.Close)
	s.Use(t, p.URL)
}

// Refuse answers a request with an error of S3.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>refused by the test</Message></Error>`, code)
}

// build returns the path of the program. It builds it under another name first, so that parallel tests
// see all of it or nothing.
var build = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "kvreplay", "versitygw-v1.8.0")
	program := filepath.Join(dir, "versitygw")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if os.Getenv(require) != "1" {
		return "", fmt.Errorf("%s was not built yet", program)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	building, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "go", "install", gateway)
	c.Dir, c.Env = building, append(os.Environ(), "GOBIN="+building, "GOFLAGS=-trimpath -ldflags=-s")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %w\n%s", gateway, err, out)
	}
	if err := os.Rename(building, dir); err != nil {
		if _, missing := os.Stat(program); missing != nil {
			return "", fmt.Errorf("install versitygw: %w", err)
		}
	}
	return program, nil
})
