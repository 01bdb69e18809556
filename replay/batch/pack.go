package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/replay"
)

// pack is the content of a pack: the counts of an attempt at a shard.
type pack struct {
	packHeader
	counts map[int]*replay.Checkpoint // by part of the shard
}

// packHeader is the first line of a pack.
type packHeader struct {
	Schema   int       `json:"schema"`
	Batch    string    `json:"batch"` // digest of the batch file
	Shard    int       `json:"shard"`
	Engine   string    `json:"engine"`
	Program  string    `json:"program"`
	Host     string    `json:"host"`
	Attempts int       `json:"attempts"` // that worked on the counts
	Workers  int       `json:"workers"`
	Seconds  float64   `json:"seconds"` // of all attempts
	Written  time.Time `json:"written"`
	Parts    int       `json:"parts"` // number of lines that follow
}

// partCounts is a line of a pack: the counts of a part.
type partCounts struct {
	Part   int                `json:"part"`
	Counts *replay.Checkpoint `json:"counts"`
}

// packName is the name of the pack of a finished shard.
func packName(shard int) string { return fmt.Sprintf("shard-%06d.jsonl.zst", shard) }

// begunName is the name of the pack of an attempt that is not finished.
func begunName(shard int) string { return fmt.Sprintf("shard-%06d.begun.jsonl.zst", shard) }

// differsName is the name of a pack whose counts differ from those of another attempt.
func differsName(shard int) string { return fmt.Sprintf("shard-%06d.differs.jsonl.zst", shard) }

var compressor, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)) // fails only for wrong options

// mostPack is the largest content of a pack in bytes.
const mostPack = 4 << 30

var decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(mostPack))

// encodePack returns the bytes of a pack with a name.
func encodePack(name string, p *pack) ([]byte, error) {
	var text bytes.Buffer
	line := json.NewEncoder(&text)
	p.Parts = len(p.counts)
	if err := line.Encode(p.packHeader); err != nil {
		return nil, err
	}
	for _, part := range slices.Sorted(maps.Keys(p.counts)) {
		if err := line.Encode(partCounts{part, p.counts[part]}); err != nil {
			return nil, err
		}
	}
	return compressor.EncodeAll(append(text.Bytes(), files.Seal(name, text.Bytes())...), nil), nil
}

// errForeign marks the error of a pack that belongs to another batch.
var errForeign = errors.New("a pack of another batch")

// decodePack reads the bytes of a pack with a name.
func decodePack(name string, packed []byte) (*pack, error) {
	text, err := decompressor.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("is damaged: %w", err)
	}
	text, ok := files.Unseal(name, text)
	if !ok {
		return nil, errors.New("is damaged: its SHA-256 is not the one that it states")
	}
	p, line := &pack{counts: map[int]*replay.Checkpoint{}}, json.NewDecoder(bytes.NewReader(text))
	if err := line.Decode(&p.packHeader); err != nil {
		return nil, err
	}
	for range p.Parts {
		var c partCounts
		if err := line.Decode(&c); err != nil {
			return nil, err
		}
		if c.Counts == nil || p.counts[c.Part] != nil {
			return nil, fmt.Errorf("has no counts of part %d, or two", c.Part)
		}
		p.counts[c.Part] = c.Counts
	}
	return p, nil
}

// readPack reads a pack and checks that it belongs to the shard. A pack that does not exist is an
// fs.ErrNotExist.
func (b *Batch) readPack(at place, name string, shard int) (*pack, error) {
	packed, err := at.get(name)
	if err != nil {
		return nil, err
	}
	p, err := decodePack(name, packed)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %w", at.name(name), err)
	case p.Batch != b.digest || p.Schema != Schema:
		return nil, fmt.Errorf("%s is %w", at.name(name), errForeign)
	case p.Engine != b.Engine:
		return nil, fmt.Errorf("%s is of engine version %s, the batch of %s", at.name(name), p.Engine, b.Engine)
	case p.Shard != shard:
		return nil, fmt.Errorf("%s is of shard %d", at.name(name), p.Shard)
	}
	if err := b.checkParts(p, shard); err != nil {
		return nil, fmt.Errorf("%s %w", at.name(name), err)
	}
	return p, nil
}

// checkParts checks that the counts are of chunks of the shard's parts.
func (b *Batch) checkParts(p *pack, shard int) error {
	parts := b.Shards[shard].Parts
	for part, counts := range p.counts {
		if part < 0 || part >= len(parts) {
			return fmt.Errorf("has a part %d of %d", part, len(parts))
		}
		for n, u := range counts.Chunks {
			if u < parts[part].From || u >= parts[part].To || n > 0 && u <= counts.Chunks[n-1] {
				return fmt.Errorf("has chunk %d in part %d", u, part)
			}
		}
	}
	return nil
}

// chunks returns the number of counted chunks.
func (p *pack) chunks() (n int) {
	for _, counts := range p.counts {
		n += len(counts.Chunks)
	}
	return n
}

// chunks returns the number of chunks of a shard.
func (s *Shard) chunks() (n int) {
	return slice.Sum(s.Parts, func(p Part) int { return p.To - p.From })
}

// readFinished reads the pack of a finished shard.
func (b *Batch) readFinished(at place, shard int) (*pack, error) {
	name := packName(shard)
	p, err := b.readPack(at, name, shard)
	if err != nil {
		return nil, err
	}
	if n, want := p.chunks(), b.Shards[shard].chunks(); n != want {
		return nil, fmt.Errorf("%s has %d of %d chunks", at.name(name), n, want)
	}
	if _, err := at.get(differsName(shard)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s differs from %s: one of their hosts computes wrongly. Remove both", at.name(name), differsName(shard))
	}
	return p, nil
}

// equalCounts reports whether two packs have the same counts.
func equalCounts(p, q *pack) bool {
	a, errA := json.Marshal(p.counts)
	b, errB := json.Marshal(q.counts)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}
