package fit

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// All columns for time or rate give the same time: 100 blocks of 1000 B in 50 µs are 2 GB/s.
func TestReadCSV(t *testing.T) {
	for header, value := range map[string]string{"seconds": "50e-6", "microseconds": "50", "bytes_per_second": "2e9", "gigabytes_per_second": "2"} {
		text := "block_bytes,blocks," + header + "\n# a remark\n1000, 100, " + value + "\n"
		groups, err := ReadCSV(strings.NewReader(text), "p.csv")
		fatal.If(t, err)
		p := groups[0].Points[0]
		if len(groups) != 1 || p.Request != (transfer.Request{Descriptors: 100, Bytes: 100_000, Launches: 1, Align: 8}) || !close(p.Seconds, 50e-6) || p.Line != 3 {
			t.Errorf("%s: %+v", header, groups)
		}
	}
	groups, err := ReadCSV(strings.NewReader("series,blocks,block_bytes,launches,seconds\nb,1,2,1,3\na,4,5,2,6\nb,7,8,1,9\n"), "p.csv")
	if err != nil || len(groups) != 2 || groups[0].Series != "b" || len(groups[0].Points) != 2 || groups[1].Points[0].Request.Launches != 2 {
		t.Errorf("%+v, %v", groups, err)
	}
}

func TestBadCSV(t *testing.T) {
	const head = "block_bytes,blocks,seconds\n"
	for text, want := range map[string]string{
		"":                                    "p.csv is empty",
		head:                                  "has a header and no measurements",
		"block_bytes,blocks\n1,2\n":           "p.csv:1: no column states a time or rate",
		"blocks,seconds\n1,2\n":               "p.csv:1: column block_bytes is missing",
		"block_bytes,block,seconds\n":         `p.csv:1: unknown column "block", did you mean blocks or block_bytes?`,
		"block_bytes,blocks,blocks,seconds\n": "column blocks appears twice",
		"block_bytes,blocks,seconds,bytes_per_second\n": "both state a time or rate",
		head + "1,2,-3\n":                     `p.csv:2: seconds "-3", expected a number above 0`,
		head + "1,2,NaN\n":                    `p.csv:2: seconds "NaN"`,
		head + "0,2,3\n":                      `p.csv:2: block_bytes "0", expected a whole number`,
		head + "1.5,2,3\n":                    `p.csv:2: block_bytes "1.5"`,
		head + "1,x,3\n":                      `p.csv:2: blocks "x"`,
		head + "1,99999999999999999999,3\n":   `p.csv:2: blocks "99999999999999999999"`,
		head + "1,2,1e999\n":                  `p.csv:2: seconds "1e999"`,
		head + "1,2,0\n":                      `p.csv:2: seconds "0", expected a number above 0`,
		head + "1,2,1e300\n":                  "p.csv:2: seconds 1e+300 gives a time of 1e+300 s, expected 1e-12 to 1e+06 s",
		head + "1,2\n":                        "wrong number of fields",
		head + "9000000000000,9000000000,3\n": "p.csv:2: 9000000000 blocks of 9000000000000 bytes",
		head + "1,\"2,3\n":                    "p.csv",
	} {
		if _, err := ReadCSV(strings.NewReader(text), "p.csv"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected %q", text, err, want)
		}
	}
}

// FuzzReadCSV checks that for any file, ReadCSV returns an error or points that can be fitted.
func FuzzReadCSV(f *testing.F) {
	f.Add("block_bytes,blocks,seconds\n656,2048,1e-3\n")
	f.Add("series,block_bytes,blocks,launches,gigabytes_per_second\na,656,2048,8,37\nb,1,1,1,1\n")
	f.Add("\ufeffblock_bytes,blocks,microseconds\n1,1,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		groups, err := ReadCSV(strings.NewReader(text), "p.csv")
		if err != nil {
			return
		}
		for _, g := range groups {
			for _, p := range g.Points {
				if p.Request.Descriptors < 1 || p.Request.Bytes < p.Request.Descriptors || p.Request.Launches < 1 || !(p.Seconds > 0) {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

// A curve written as YAML is read back as a link's path.
func TestWriteYAML(t *testing.T) {
	c := &transfer.Curve{Launch: 9e-6, Submit: .5e-6, Ahead: 8000, Regimes: []transfer.Regime{{Rate: 7e9, Inline: true}, {From: 32768, Descriptor: .1e-6, Rate: 55e9}}}
	var b bytes.Buffer
	fatal.If(t, WriteYAML(&b, c, "mine"))
	indented := "    " + strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n", "\n    ") + "\n"
	text := "kind: link\nname: l\ntitle: a test\nsources: {mine: here}\nbandwidth: {value: 63 GB/s, status: datasheet, source: mine}\n" +
		"host_to_device:\n  batch:\n" + indented + "device_to_host:\n  batch:\n" + indented
	it, err := hardware.Parse("l.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got := transfer.NewCurve(it.(*hardware.Link).HostToDevice.Batch, transfer.Packets{})
	if got.Launch != c.Launch || got.Ahead != c.Ahead || len(got.Regimes) != 2 || got.Regimes[1] != c.Regimes[1] || !got.Regimes[0].Inline {
		t.Errorf("read back %+v", got)
	}
}
