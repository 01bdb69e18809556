package demand

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/trace"
)

// Clusters groups the tokens of streams into units of unequal sizes, which are fetched, kept and
// evicted together. RetroInfer has such clusters of similar keys (Chen et al. 2025,
// arXiv:2505.02922). Its block cache is LRU over clusters. A token in no cluster is a unit of one.
//
// A step that demands any token of a cluster demands the whole cluster. A cluster takes the
// capacity of all its tokens, rounded up to whole pages. A token that leaves the local window is a
// birth if it is a unit of one. Larger clusters become resident only when they are fetched.
type Clusters struct {
	source string
	page   int
	file   map[trace.Key][]int32 // cluster of each token, or a negative number. Nil for clustersOfLists
}

// clustersOfLists is the source of clusters that are derived from the lists: see chains.
const clustersOfLists = "lists"

// ClustersError reports a text that ParseClusters does not understand. Errors of files have other
// types.
type ClustersError struct{ text string }

func (e *ClustersError) Error() string { return e.text }

// ParseClusters reads "lists" or the path of a file of clusters. Either may end in the number of
// tokens of a page, as in "lists,page=8". It returns nil for the empty text.
//
// The file has one line per stream with a JSON object. Its keys are request_id, layer_id, head and
// token_clusters. head is null or absent if the layer shares its selection. token_clusters lists
// the cluster of each token from the first on, or -1. Tokens beyond the list are in no cluster.
func ParseClusters(text string) (*Clusters, error) {
	if text == "" {
		return nil, nil
	}
	c := &Clusters{source: text, page: 1}
	if source, page, paged := strings.Cut(text, ",page="); paged {
		n, err := strconv.Atoi(page)
		if err != nil || n < 1 || n > 1<<20 {
			return nil, &ClustersError{fmt.Sprintf("clusters %q: expected a page of 1 to %d tokens, as in lists,page=8", text, 1<<20)}
		}
		c.source, c.page = source, n
	}
	if c.source == clustersOfLists {
		return c, nil
	}
	return c, c.read(c.source)
}

// clusterRow is a line of a file of clusters.
type clusterRow struct {
	Request  *string       `json:"request_id"`
	Layer    *int32        `json:"layer_id"`
	Head     *int32        `json:"head"`
	Clusters tokenClusters `json:"token_clusters"`
}

// tokenClusters rejects null, which encoding/json would read as cluster 0.
type tokenClusters []int32

// UnmarshalJSON reads an array of numbers.
func (c *tokenClusters) UnmarshalJSON(text []byte) error {
	if bytes.Contains(text, []byte("null")) {
		return fmt.Errorf("token_clusters: null, expected numbers, -1 for a token in no cluster")
	}
	return json.Unmarshal(text, (*[]int32)(c))
}

// read reads the clusters of a file. Their source is the beginning of the file's SHA-256.
func (c *Clusters) read(path string) error {
	if err := files.CheckStream(path); err != nil {
		return fmt.Errorf("clusters: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("clusters: %w (expected lists, or a file of clusters)", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("clusters %s: the file is empty. `kvreplay clusters` writes one", path)
	}
	if c.file, err = decodeClusters(text); err != nil {
		return fmt.Errorf("clusters %s: %w", path, err)
	}
	sum := sha256.Sum256(text)
	c.source = "sha256:" + hex.EncodeToString(sum[:8])
	return nil
}

func decodeClusters(text []byte) (map[trace.Key][]int32, error) {
	streams := map[trace.Key][]int32{}
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		var row clusterRow
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&row); err != nil {
			return nil, fmt.Errorf("line %d: expected an object with request_id, layer_id, head, token_clusters: %w", n, names.OfFields(err, row))
		}
		if behind := bytes.TrimSpace(line[decoder.InputOffset():]); len(behind) > 0 {
			return nil, fmt.Errorf("line %d: %d bytes follow the object, expected one object per line", n, len(behind))
		}
		if row.Request == nil || row.Layer == nil || row.Clusters == nil {
			return nil, fmt.Errorf("line %d: expected request_id, layer_id and token_clusters", n)
		}
		k := trace.Key{Request: *row.Request, Layer: *row.Layer, Head: optional.Or(row.Head, trace.NoHead)}
		if _, twice := streams[k]; twice {
			return nil, fmt.Errorf("line %d: %v appears twice", n, k)
		}
		if at := slices.IndexFunc(row.Clusters, func(n int32) bool { return n < -1 }); at >= 0 {
			return nil, fmt.Errorf("line %d: token %d is in cluster %d, expected 0 or more, or -1 for none", n, at, row.Clusters[at])
		}
		streams[k] = dense(row.Clusters)
	}
	return streams, nil
}

// NewClusters returns clusters for the given streams. For each stream, it takes the cluster of each
// token from the first on, or a negative number for no cluster. The capacity that a cluster takes is
// rounded up to pages of page tokens.
func NewClusters(streams map[trace.Key][]int32, page int) *Clusters {
	c := &Clusters{page: page, file: map[trace.Key][]int32{}}
	for k, of := range streams {
		c.file[k] = dense(of)
	}
	return c
}

// Check returns an error if the clusters do not fit the streams of a trace with metadata m.
func (c *Clusters) Check(m *trace.Meta, streams []trace.Key) error {
	switch {
	case m.BlockTokens > 1:
		return fmt.Errorf("clusters group single tokens, but the trace lists blocks of %d tokens", m.BlockTokens)
	case c.file == nil && listsClusters(m) != nil:
		return fmt.Errorf("%w. Name a file of clusters", listsClusters(m))
	}
	for _, k := range streams {
		if c.file != nil && c.file[k] == nil {
			return fmt.Errorf("clusters %s: no clusters of %v", c.source, k)
		}
	}
	return nil
}

// TokenClusters returns the cluster of each token of s, or a negative number for no cluster.
// candidates is the largest length of the lists of s.
func (c *Clusters) TokenClusters(s *trace.Stream, candidates int) []int32 {
	if c.file == nil {
		return numbered(chains(s, candidates))
	}
	return c.file[s.Key]
}

// Page returns the number of tokens of a page. The capacity that a cluster takes is rounded up to
// whole pages.
func (c *Clusters) Page() int { return c.page }

// String returns the name of the clusters in rows: "lists", or the digest of their file.
// ParseClusters does not accept a digest.
func (c *Clusters) String() string {
	switch {
	case c == nil:
		return ""
	case c.page > 1:
		return fmt.Sprintf("%s,page=%d", c.source, c.page)
	}
	return c.source
}

// WriteClusters writes a file with the clusters of every stream of a trace, in the trace's order.
// It derives them from the lists, as `--clusters lists` does. Clusters are numbered by their first
// tokens, and single tokens are in no cluster. If the context is cancelled, WriteClusters stops
// after the current stream and returns the context's error.
func WriteClusters(ctx context.Context, w io.Writer, f *trace.File) error {
	if err := listsClusters(f.Meta()); err != nil {
		return fmt.Errorf("%s: %w", f.Path(), err)
	}
	r := f.NewReader(0)
	defer r.Close()
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	var s trace.Stream
	for i := range f.Streams() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.Read(i, &s); err != nil {
			return err
		}
		row := clusterRow{Request: &s.Request, Layer: &s.Layer, Clusters: numbered(chains(&s, f.Meta().Candidates))}
		if s.Head != trace.NoHead {
			row.Head = &s.Head
		}
		if err := lines.Encode(row); err != nil {
			return err
		}
	}
	return out.Flush()
}

// listsClusters returns an error unless the trace's selector is known to rank clusters.
func listsClusters(m *trace.Meta) error {
	switch {
	case m.Selector != "retroinfer" && m.Selector != "kvdrive":
		return fmt.Errorf("lists of the selector %s show no clusters, those of retroinfer and kvdrive do", cmp.Or(m.Selector, "(not stated)"))
	case m.Order != trace.OrderRank || m.BlockTokens != 1:
		return errors.New("only ranked lists of single tokens show clusters")
	}
	return nil
}
