package gunzip

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	fatal.If(t, errors.Join(err, z.Close()))
	return b.Bytes()
}

func unzipped(r io.Reader) (string, error) {
	text, err := Reader(r)
	if err != nil {
		return "", err
	}
	all, err := io.ReadAll(text)
	return string(all), err
}

// Gzip data is decompressed, including several members in a row. Other data is unchanged.
func TestReader(t *testing.T) {
	for name, c := range map[string]struct{ packed, want string }{
		"gzip":        {string(zipped(t, "a line\n")), "a line\n"},
		"two members": {string(zipped(t, "a line\n")) + string(zipped(t, "another")), "a line\nanother"},
		"plain":       {"a line\n", "a line\n"},
		"one byte":    {"\x1f", "\x1f"},
		"empty":       {"", ""},
		"zip":         {"PK\x03\x04", "PK\x03\x04"},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.packed), iotest.OneByteReader(strings.NewReader(c.packed))} {
			if got, err := unzipped(r); got != c.want || err != nil {
				t.Errorf("%s: read %q, %v, expected %q", name, got, err, c.want)
			}
		}
	}
}

// Errors distinguish damage, a file that ends too early, and errors of the disk.
func TestErrors(t *testing.T) {
	whole := zipped(t, strings.Repeat("a line of text, and another\n", 100))
	sum, body := bytes.Clone(whole), bytes.Clone(whole)
	sum[len(sum)-8] ^= 1
	body[12] ^= 0xff
	disk := errors.New("disk on fire")
	for name, c := range map[string]struct {
		r    io.Reader
		want string
	}{
		"header cut":   {bytes.NewReader(whole[:5]), "ends too early"},
		"body cut":     {bytes.NewReader(whole[:len(whole)/2]), "ends too early"},
		"checksum cut": {bytes.NewReader(whole[:len(whole)-3]), "ends too early"},
		"no header":    {strings.NewReader("\x1f\x8b and no more than that"), "is damaged"},
		"checksum":     {bytes.NewReader(sum), "is damaged"},
		"body":         {bytes.NewReader(body), "is damaged"},
		"disk":         {io.MultiReader(bytes.NewReader(whole[:20]), iotest.ErrReader(disk)), disk.Error()},
		"disk at once": {iotest.ErrReader(disk), disk.Error()},
	} {
		_, err := unzipped(c.r)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q", name, err, c.want)
		}
		if isDisk := c.want == disk.Error(); isDisk != (err == disk) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
