package cli_test

import (
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/s3test"
)

// The network of BenchmarkNetwork.
const (
	networkLatency = 10 * time.Millisecond // of a request (assumed)
	networkRate    = 125e6                 // bytes/s of all requests together, 1 Gbit/s (assumed)
)

// network is a link that all answers of a server share.
type network struct {
	mu    sync.Mutex
	free  time.Time // the end of the last write
	bytes int64
}

// slowed writes an answer at the rate of the network.
type slowed struct {
	http.ResponseWriter
	network *network
}

// Write waits until the bytes have crossed the network.
func (w slowed) Write(p []byte) (int, error) {
	w.network.mu.Lock()
	if now := time.Now(); w.network.free.Before(now) {
		w.network.free = now
	}
	w.network.free = w.network.free.Add(time.Duration(float64(len(p)) / networkRate * float64(time.Second)))
	end := w.network.free
	w.network.bytes += int64(len(p))
	w.network.mu.Unlock()
	if ahead := time.Until(end); ahead > 4*time.Millisecond { // shorter sleeps take longer than they say
		time.Sleep(ahead)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets the proxy flush.
func (w slowed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// BenchmarkNetwork replays two traces from a folder and over a network: LRU alone, and forty cells. It
// reports the time that the network alone takes for the bytes and two answers, which no program can undercut.
func BenchmarkNetwork(b *testing.B) {
	server := s3test.Start(b)
	objects := map[string][]byte{}
	var local, remote []string
	for _, name := range []string{"deep_vt.parquet", "deep_niah_multikey_2.parquet"} {
		path := filepath.Join("..", "..", "datasets", "corpus", name)
		objects[name] = []byte(content(b, path))
		local, remote = append(local, path), append(remote, "s3://traces/"+name)
	}
	server.Bucket(b, "traces", objects)
	n := new(network)
	server.Proxy(b, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		time.Sleep(networkLatency)
		next.ServeHTTP(slowed{w, n}, r)
	})
	for _, c := range []struct{ name, policies, capacities string }{
		{"cells=1", "lru", "2x"},
		{"cells=40", "lru,fifo,lfu,lrfu,sieve,s3fifo,lirs,opt", "1.25x,1.5x,2x,3x,4x"},
	} {
		for where, traces := range map[string][]string{"local": local, "s3": remote} {
			b.Run(c.name+"/from="+where, func(b *testing.B) {
				before := n.bytes
				for b.Loop() {
					must(b, append([]string{"replay", "--policy", c.policies, "--capacity", c.capacities, "--out", b.TempDir()}, traces...)...)
				}
				if where == "s3" {
					seconds := float64(n.bytes-before)/float64(b.N)/networkRate + 2*networkLatency.Seconds()
					b.ReportMetric(1e3*seconds, "network-ms/op")
				}
			})
		}
	}
}

// BenchmarkStore replays LRU alone on a trace of 247 MB, from a folder and from a store on this machine.
// Latency and rate of the store are those of its program.
func BenchmarkStore(b *testing.B) {
	server := s3test.Start(b)
	trace := filepath.Join(b.TempDir(), "synthetic.parquet")
	must(b, "datasets", "make", "synthetic", "--preset", "deepseek-v3.2-32k", "--steps", "120", "--requests", "6", "-o", trace)
	server.Bucket(b, "traces", map[string][]byte{"synthetic.parquet": []byte(content(b, trace))})
	for _, c := range []struct{ where, trace string }{{"local", trace}, {"s3", "s3://traces/synthetic.parquet"}} {
		b.Run("from="+c.where, func(b *testing.B) {
			for b.Loop() {
				must(b, "replay", "--policy", "lru", "--capacity", "2x", "--out", b.TempDir(), c.trace)
			}
		})
	}
}
