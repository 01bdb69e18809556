package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/internal/s3test"
	"github.com/kvreplay/kvreplay/internal/storage"
)

// content returns n bytes that do not repeat.
func content(n int) []byte {
	data := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func read(t *testing.T, s storage.Store, name string, from, to int64) string {
	t.Helper()
	body, info, err := s.Get(t.Context(), name, from, to, "")
	fatal.If(t, err)
	defer body.Close()
	if want, err := s.Stat(t.Context(), name); err != nil || info.Size != want.Size || info.Tag != want.Tag || info.Name != want.Name {
		t.Errorf("Get describes %v, Stat %v, %v", info, want, err)
	}
	data, err := io.ReadAll(body)
	fatal.If(t, err)
	return string(data)
}

// A folder and a bucket behave alike.
func TestStore(t *testing.T) {
	for name, place := range map[string]func(t *testing.T) string{
		"folder": func(t *testing.T) string { return filepath.Join(t.TempDir(), "packs") },
		"bucket": func(t *testing.T) string {
			s3test.Start(t).Bucket(t, "corpus", map[string][]byte{"other/x": nil})
			return "s3://corpus/packs"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := storage.At(place(t))
			fatal.If(t, err)
			ctx := t.Context()
			if list, err := s.List(ctx, ""); err != nil || len(list) != 0 {
				t.Fatalf("an empty store lists %v, %v", list, err)
			}
			for _, object := range []string{"b/2", "a", "b/1"} {
				fatal.If(t, s.Put(ctx, object, strings.NewReader("old"), 3))
				fatal.If(t, s.Put(ctx, object, strings.NewReader("text of "+object), int64(len("text of "+object))))
			}
			list, err := s.List(ctx, "b/")
			if err != nil || len(list) != 2 || list[0].Name != "b/1" || list[1].Name != "b/2" || list[0].Size != int64(len("text of b/1")) {
				t.Errorf("List: %v, %v", list, err)
			}
			info, err := s.Stat(ctx, "a")
			if err != nil || info.Name != "a" || info.Size != int64(len("text of a")) {
				t.Errorf("Stat: %v, %v", info, err)
			}
			for part, want := range map[[2]int64]string{{0, -1}: "text of a", {5, -1}: "of a", {0, 4}: "text", {5, 7}: "of", {3, 3}: "", {-4, -1}: "of a", {-100, -1}: "text of a"} {
				if got := read(t, s, "a", part[0], part[1]); got != want {
					t.Errorf("bytes %v: %q, expected %q", part, got, want)
				}
			}
			fatal.If(t, s.Put(ctx, "empty", strings.NewReader(""), 0))
			if data, err := storage.ReadFile(ctx, s, "empty", 100); err != nil || len(data) != 0 || read(t, s, "empty", -4, -1) != "" {
				t.Errorf("ReadFile of an empty object: %q, %v", data, err)
			}
			if data, err := storage.ReadFile(ctx, s, "b/1", 100); err != nil || string(data) != "text of b/1" {
				t.Errorf("ReadFile: %q, %v", data, err)
			}
			if _, err := storage.ReadFile(ctx, s, "b/1", 10); err == nil || !strings.Contains(err.Error(), "at most 10") {
				t.Errorf("ReadFile of a large object: %v", err)
			}
			if err := s.Remove(ctx, "b/2"); err != nil {
				t.Error(err)
			}
			if list, err := s.List(ctx, ""); err != nil || len(list) != 3 {
				t.Errorf("after Remove: %v, %v", list, err)
			}
			if _, err := s.Stat(ctx, "none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Stat of a missing object: %v", err)
			}
			if _, _, err := s.Get(ctx, "none", 0, -1, ""); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Get of a missing object: %v", err)
			}
		})
	}
}

// A name cannot leave its folder.
func TestFolderKeepsNames(t *testing.T) {
	s, err := storage.At(t.TempDir())
	fatal.If(t, err)
	if err := s.Put(t.Context(), "../x", strings.NewReader(""), 0); err == nil || !strings.Contains(err.Error(), "leaves the folder") {
		t.Errorf("Put: %v", err)
	}
}

func TestURLs(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "")
	for url, want := range map[string]string{"s3://": "no bucket", "s3:///x": "no bucket", "s3://b": "no object", "s3://b/": "no object", "s3://b/x/": "no object", "s3://*/x": "no bucket"} {
		if _, err := storage.Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", url, err, want)
		}
	}
	for _, endpoint := range []string{"localhost:9000", "ftp://x", "http://x/path", "::"} {
		t.Setenv("AWS_ENDPOINT_URL", endpoint)
		if _, err := storage.Open(t.Context(), "s3://b/x"); err == nil || !strings.Contains(err.Error(), "expected http://HOST:PORT") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// Reads of random ranges from concurrent readers give the bytes of the object, with and without
// announced ranges. Announced ranges take requests of at most 8 MiB.
func TestRanges(t *testing.T) {
	server := s3test.Start(t)
	data := content(20<<20 + 12345)
	server.Bucket(t, "corpus", map[string][]byte{"a/x.bin": data})
	var requests atomic.Int64
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet {
			requests.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	o, err := storage.Open(t.Context(), "s3://corpus/a/x.bin")
	fatal.If(t, err)
	defer o.Close()
	if o.Size() != int64(len(data)) {
		t.Fatalf("%d bytes, expected %d", o.Size(), len(data))
	}
	check := func(at, n int) {
		p := make([]byte, n)
		got, err := o.ReadAt(p, int64(at))
		want := data[min(at, len(data)):min(at+n, len(data))]
		if got != len(want) || !bytes.Equal(p[:got], want) || (err == io.EOF) != (got < n) || err != nil && err != io.EOF {
			t.Errorf("bytes %d to %d: %d bytes, %v", at, at+n, got, err)
		}
	}
	check(0, 4)
	check(len(data)-10, 20)
	check(len(data)+5, 1)
	requests.Store(0)
	o.Expect([]storage.Span{{From: 100, To: 300}, {From: 1 << 20, To: int64(len(data))}}, 2)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 2))
			for range 50 {
				check(1<<20+r.IntN(len(data)-2<<20), r.IntN(100_000))
			}
		})
	}
	wait.Wait()
	if n := requests.Load(); n > 4 {
		t.Errorf("%d requests for 20 MB, expected 3 of at most 8 MiB and 1 ahead", n)
	}
}

func TestStage(t *testing.T) {
	server := s3test.Start(t)
	data := content(17 << 20)
	server.Bucket(t, "corpus", map[string][]byte{"x.bin": data, "empty": {}})
	for name, want := range map[string][]byte{"x.bin": data, "empty": {}} {
		path := filepath.Join(t.TempDir(), "staged")
		fatal.If(t, storage.Stage(t.Context(), "s3://corpus/"+name, path))
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet {
			cancel()
		}
		next.ServeHTTP(w, r)
	})
	dir := t.TempDir()
	if err := storage.Stage(ctx, "s3://corpus/x.bin", filepath.Join(dir, "staged")); err == nil {
		t.Error("a cancelled Stage succeeds")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("a cancelled Stage leaves %v", left)
	}
}

// An upload that is cut half-way leaves the older object, or none.
func TestCutUpload(t *testing.T) {
	server := s3test.Start(t)
	server.Bucket(t, "corpus", map[string][]byte{"old": []byte("old content")})
	restore := storage.SetLimits(time.Minute, time.Minute, 1)
	s, err := storage.At("s3://corpus")
	restore()
	fatal.If(t, err)
	for _, name := range []string{"old", "new"} {
		ctx, cancel := context.WithCancel(t.Context())
		data := content(12 << 20)
		half := io.MultiReader(bytes.NewReader(data[:6<<20]), stopper{cancel})
		if err := s.Put(ctx, name, half, int64(len(data))); err == nil {
			t.Errorf("%s: a cut upload succeeds", name)
		}
		cancel()
	}
	s, err = storage.At("s3://corpus") // with repeated requests
	fatal.If(t, err)
	if got := read(t, s, "old", 0, -1); got != "old content" {
		t.Errorf("a cut upload changes the object to %d bytes", len(got))
	}
	if _, err := s.Stat(t.Context(), "new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cut upload leaves an object (%v)", err)
	}
}

// stopper ends an upload in its middle.
type stopper struct{ cancel func() }

func (s stopper) Read([]byte) (int, error) {
	s.cancel()
	return 0, errors.New("cut")
}

// An object that changes while it is read is an error, for ranges and for a whole copy.
func TestChangedObject(t *testing.T) {
	server := s3test.Start(t)
	server.Bucket(t, "corpus", map[string][]byte{"none": nil})
	s, err := storage.At("s3://corpus")
	fatal.If(t, err)
	put := func(data []byte) {
		fatal.If(t, s.Put(t.Context(), "x", bytes.NewReader(data), int64(len(data))))
	}
	data := content(1 << 20)
	put(data)
	o, err := storage.Open(t.Context(), "s3://corpus/x")
	fatal.If(t, err)
	defer o.Close()
	p := make([]byte, 10)
	if _, err := o.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	data[5]++
	put(data)
	_, err = o.ReadAt(p, 500_000)
	if !errors.Is(err, storage.ErrChanged) || !storage.Unread(err) || !strings.Contains(err.Error(), "bytes 458752 to 524287: was changed while kvreplay read it, expected the same ETag to the end. Run again") {
		t.Errorf("a changed object: %v", err)
	}
	var gets atomic.Int64
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet && gets.Add(1) == 2 {
			data[6]++
			if err := s.Put(r.Context(), "x", bytes.NewReader(data), int64(len(data))); err != nil {
				t.Error(err)
			}
		}
		next.ServeHTTP(w, r)
	})
	if err := storage.Stage(t.Context(), "s3://corpus/x", filepath.Join(t.TempDir(), "x")); !errors.Is(err, storage.ErrChanged) {
		t.Errorf("Stage of a changed object: %v", err)
	}
}

// Wrong, absent and expired credentials are errors with a remedy.
func TestCredentials(t *testing.T) {
	server := s3test.Start(t)
	server.Bucket(t, "corpus", map[string][]byte{"x": []byte("text")})
	file := filepath.Join(t.TempDir(), "credentials")
	fatal.If(t, os.WriteFile(file, []byte("[lab]\naws_access_key_id = "+s3test.AccessKey+"\naws_secret_access_key = "+s3test.SecretKey+"\n"), 0o600))
	for _, c := range []struct {
		name string
		set  map[string]string
		url  string
		want string // of the error, empty if there is none
	}{
		{"right", nil, "s3://corpus/x", ""},
		{"profile", map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "lab"}, "s3://corpus/x", ""},
		{"secret", map[string]string{"AWS_SECRET_ACCESS_KEY": "wrong"}, "s3://corpus/x", "s3://corpus/x: access denied to the key kvreplay-test (SignatureDoesNotMatch). Check the credentials"},
		{"key", map[string]string{"AWS_ACCESS_KEY_ID": "nobody"}, "s3://corpus/x", "access denied to the key nobody ("},
		{"none", map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "s3://corpus/x", "access denied without credentials (AccessDenied). Set AWS_ACCESS_KEY_ID"},
		{"object", nil, "s3://corpus/y", "s3://corpus/y: no such object"},
		{"bucket", nil, "s3://elsewhere/y", "s3://elsewhere/y: no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.set {
				t.Setenv(name, value)
			}
			o, err := storage.Open(t.Context(), c.url)
			if err == nil {
				o.Close()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
	t.Run("expired", func(t *testing.T) {
		defer storage.SetLimits(time.Minute, time.Minute, 2)()
		server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			s3test.Refuse(w, http.StatusBadRequest, "ExpiredToken")
		})
		if _, err := storage.Open(t.Context(), "s3://corpus/x"); err == nil || !strings.Contains(err.Error(), "the credentials have expired (ExpiredToken). Get new ones") {
			t.Errorf("expired credentials: %v", err)
		}
	})
	t.Run("elsewhere", func(t *testing.T) {
		defer storage.SetLimits(time.Minute, time.Minute, 2)()
		server.Use(t, "http://127.0.0.1:1")
		if _, err := storage.Open(t.Context(), "s3://corpus/x"); err == nil || !strings.Contains(err.Error(), "no connection to 127.0.0.1:1. Check AWS_ENDPOINT_URL") {
			t.Errorf("no server: %v", err)
		}
	})
}

// A store that refuses requests for a while is asked again. If it goes on, the error says so.
func TestThrottling(t *testing.T) {
	if testing.Short() {
		t.Skip("waits between attempts")
	}
	server := s3test.Start(t)
	data := content(100_000)
	server.Bucket(t, "corpus", map[string][]byte{"x": data})
	var asked atomic.Int64
	var often atomic.Int64
	server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if asked.Add(1)%often.Load() != 0 {
			s3test.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
			return
		}
		next.ServeHTTP(w, r)
	})
	often.Store(3) // every third request is answered
	o, err := storage.Open(t.Context(), "s3://corpus/x")
	fatal.If(t, err)
	defer o.Close()
	got := make([]byte, len(data))
	if _, err := o.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
		t.Errorf("with every third request answered: %v", err)
	}
	defer storage.SetLimits(time.Minute, 2*time.Minute, 3)()
	often.Store(1 << 40)
	o, err = storage.Open(t.Context(), "s3://corpus/x")
	if err == nil {
		o.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "refused 3 attempts") || !strings.Contains(err.Error(), "Run again later") {
		t.Errorf("with no request answered: %v", err)
	}
}

// counting counts requests for bytes.
type counting struct {
	storage.Store
	gets *atomic.Int64
}

func (c counting) Get(ctx context.Context, name string, from, to int64, tag string) (io.ReadCloser, storage.Info, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, name, from, to, tag)
}

// openCounting opens the object x of a folder, and counts the requests for its bytes.
func openCounting(t *testing.T, dir string) (*storage.Object, *atomic.Int64) {
	t.Helper()
	s, err := storage.At(dir)
	fatal.If(t, err)
	gets := new(atomic.Int64)
	o, err := storage.OpenIn(t.Context(), counting{s, gets}, "x")
	fatal.If(t, err)
	t.Cleanup(func() { o.Close() })
	return o, gets
}

// gated is a store whose answers end at a byte until the gate is open.
type gated struct {
	storage.Store
	at   int64
	gate chan struct{}
}

func (g gated) Get(ctx context.Context, name string, from, to int64, tag string) (io.ReadCloser, storage.Info, error) {
	body, info, err := g.Store.Get(ctx, name, from, to, tag)
	if err != nil || from < 0 || to <= g.at {
		return body, info, err
	}
	before := io.LimitReader(body, max(0, g.at-from))
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(before, waiting(g.gate), body), body}, info, nil
}

// waiting is an empty reader that ends when the channel is closed.
type waiting chan struct{}

func (w waiting) Read([]byte) (int, error) {
	<-w
	return 0, io.EOF
}

// Then calls its function once, after the last block begins to arrive.
func TestThen(t *testing.T) {
	const block, size = 8 << 20, 20 << 20
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	fatal.If(t, os.Truncate(filepath.Join(dir, "x"), size))
	s, err := storage.At(dir)
	fatal.If(t, err)
	gate := make(chan struct{})
	o, err := storage.OpenIn(t.Context(), gated{s, 2 * block, gate}, "x")
	fatal.If(t, err)
	defer o.Close()
	opened := sync.OnceFunc(func() { close(gate) })
	defer opened()
	var calls atomic.Int64
	o.Expect([]storage.Span{{From: 0, To: size - 1<<20}}, 2)
	o.Then(func() { calls.Add(1) })
	read := func(to int) {
		if _, err := o.ReadAt(make([]byte, to), 0); err != nil {
			t.Fatal(err)
		}
	}
	read(2 * block)
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls before a byte of the last block arrives", n)
	}
	opened()
	read(size - 1<<20)
	o.Close() // waits for calls
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls after the last byte, expected 1", n)
	}
}

// Announcements that overlap request few bytes twice.
func TestExpectAgain(t *testing.T) {
	const size = 40 << 20
	data := content(size)
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "x"), data, 0o600))
	o, gets := openCounting(t, dir)
	o.Expect([]storage.Span{{From: 0, To: 1000}, {From: 3 << 20, To: 7 << 20}}, 8)
	for range 2 {
		o.Expect([]storage.Span{{From: 500, To: size}}, 2)
	}
	got := make([]byte, size)
	if _, err := o.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
		t.Errorf("other bytes, %v", err)
	}
	// The last bytes, 2 ranges of the first announcement, the bytes before the second range, and 5 blocks.
	if n := gets.Load(); n != 9 {
		t.Errorf("%d requests for 40 MiB, expected 9", n)
	}
}

// Reading ahead drops no block before it is read, however many blocks the reader announces.
func TestReadAhead(t *testing.T) {
	const block, blocks = 8 << 20, 12
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	fatal.If(t, os.Truncate(filepath.Join(dir, "x"), block*blocks))
	o, gets := openCounting(t, dir)
	o.Expect([]storage.Span{{From: 0, To: block * blocks}}, 64)
	for at := int64(0); at < block*blocks; at += 1 << 20 {
		if _, err := o.ReadAt(make([]byte, 1), at); err != nil {
			t.Fatal(err)
		}
	}
	if n := gets.Load(); n > 1+blocks {
		t.Errorf("%d requests for %d blocks and the last bytes", n, blocks)
	}
}

// A server that stops in the middle of an answer, or cuts it, is asked again.
func TestSlowServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a server that stalls")
	}
	server := s3test.Start(t)
	data := content(300_000)
	server.Bucket(t, "corpus", map[string][]byte{"x": data})
	s, err := storage.At("s3://corpus")
	fatal.If(t, err)
	try := func(t *testing.T, silence time.Duration, fail func(r *http.Request)) error {
		defer storage.SetLimits(silence, time.Minute, 3)()
		info, err := s.Stat(t.Context(), "x")
		fatal.If(t, err)
		var asked, failing atomic.Int64
		failing.Store(3)
		server.Proxy(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet && asked.Add(1) <= failing.Load() {
				from, to := len(data)-256<<10, len(data)-1 // of the first request
				if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
					from = len(data) - 256<<10
				}
				w.Header().Set("Content-Length", strconv.Itoa(to+1-from))
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)))
				w.Header().Set("ETag", `"`+info.Tag+`"`)
				w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(data[from : from+1000])
				_ = http.NewResponseController(w).Flush()
				fail(r)
				return
			}
			next.ServeHTTP(w, r)
		})
		read := func() error {
			o, err := storage.Open(t.Context(), "s3://corpus/x")
			if err != nil {
				return err
			}
			defer o.Close()
			got := make([]byte, len(data))
			if _, err := o.ReadAt(got, 0); err != nil {
				return err
			}
			if !bytes.Equal(got, data) {
				t.Error("other bytes")
			}
			return nil
		}
		if err := read(); err != nil {
			return fmt.Errorf("after three answers that fail: %w", err)
		}
		failing.Store(1 << 40)
		if err := read(); err == nil || !storage.Unread(err) || !strings.Contains(err.Error(), "bytes 0 to 299999: ") {
			return fmt.Errorf("if every answer fails: %v", err)
		}
		return nil
	}
	t.Run("stall", func(t *testing.T) {
		stall := func(r *http.Request) { <-r.Context().Done() }
		silence := 300 * time.Millisecond
		err := try(t, silence, stall)
		for err != nil && silence < 10*time.Second { // a slow machine is silent too
			silence *= 4
			err = try(t, silence, stall)
		}
		fatal.If(t, err)
	})
	t.Run("cut", func(t *testing.T) {
		fatal.If(t, try(t, time.Minute, func(*http.Request) { panic(http.ErrAbortHandler) }))
	})
}

// A server that answers a request for a range with other bytes is an error. The last bytes of a short
// object may be the whole.
func TestOtherRange(t *testing.T) {
	server := s3test.Start(t)
	data := content(300_000)
	answer := func(whole []byte, part string) (*storage.Object, error) {
		server.Proxy(t, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			if part != "untagged" {
				w.Header().Set("ETag", `"1"`)
			}
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			if strings.Contains(part, " ") {
				w.Header().Set("Content-Range", part)
			}
			if part != "unsized" {
				w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
			}
			_, _ = w.Write(whole)
		})
		return storage.Open(t.Context(), "s3://corpus/x")
	}
	for part, want := range map[string]string{
		"":                     "answered with bytes 0 to 299999, expected those from 37856. Copy the object to a file",
		"unsized":              "answered without the size of the object",
		"bytes 0-65535/300000": "answered with bytes 0 to 65535, expected those from 37856",
		"bytes 0 to 65535":     `answered with the range "bytes 0 to 65535", expected bytes FIRST-LAST/SIZE`,
		"bytes 37856-299999/*": "expected bytes FIRST-LAST/SIZE",
	} {
		if _, err := answer(data, part); err == nil || !storage.Unread(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("range %q: %v, expected %q", part, err, want)
		}
	}
	const untagged = "s3://corpus/x: the store states no ETag, "
	if _, err := answer(data[:1000], "untagged"); err == nil || !storage.Unread(err) || !strings.HasPrefix(err.Error(), untagged) {
		t.Errorf("without an ETag: %v, expected %q", err, untagged)
	}
	o, err := answer(data[:1000], "")
	fatal.If(t, err)
	defer o.Close()
	got := make([]byte, 1000)
	if _, err := o.ReadAt(got, 0); err != nil || !bytes.Equal(got, data[:1000]) {
		t.Errorf("a short object: %v", err)
	}
}
