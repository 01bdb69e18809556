package requests

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvreplay/kvreplay/internal/jsonobject"
	"github.com/kvreplay/kvreplay/internal/names"
)

// azureHeader is the first line of the Azure traces of 2023.
const azureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens"

// azureTimes are the layouts of TIMESTAMP. Both allow a fraction of a second. The traces have seven
// digits of it. The zone of the traces is not stated, and differences do not depend on it.
var azureTimes = []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00"}

// azureRows are the lines of the CSV.
type azureRows struct {
	csv    *csv.Reader
	fields int // 3, or 4 with classes
	line   int
	layout string // of the timestamps, from the first one
	first  time.Time
}

func newAzureRows(r io.Reader) (*azureRows, error) {
	a := &azureRows{csv: csv.NewReader(r), line: 1}
	a.csv.ReuseRecord = true
	a.csv.FieldsPerRecord = -1 // counted here, with the line
	header, err := a.csv.Read()
	if err != nil {
		return nil, csvCause(err)
	}
	if a.fields, err = columns(header, azureHeader, "Class"); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *azureRows) next(q *Request) (int, error) {
	a.line++
	fields, err := a.csv.Read()
	if err != nil {
		return a.line, csvCause(err)
	}
	if line, _ := a.csv.FieldPos(0); line != a.line {
		return a.line, errors.New("empty line, expected a request")
	}
	if len(fields) != a.fields {
		return a.line, fmt.Errorf("%d fields, expected %d as in the header", len(fields), a.fields)
	}
	if q.Arrival, err = a.arrival(fields[0]); err != nil {
		return a.line, err
	}
	if q.InputTokens, err = tokens("ContextTokens", fields[1]); err != nil {
		return a.line, err
	}
	if q.OutputTokens, err = tokens("GeneratedTokens", fields[2]); err != nil {
		return a.line, err
	}
	q.PrefixBlocks = nil
	return a.line, q.class(fields[3:])
}

// columns returns the number of columns of a header, which may end with one of classes.
func columns(header []string, want, class string) (int, error) {
	got := strings.Join(header, ",")
	if got != want && got != want+","+class {
		return 0, fmt.Errorf("the header is %q, expected %s, or the same and %s", got, want, class)
	}
	return len(header), nil
}

// class reads the class of a request, if its line has one.
func (q *Request) class(fields []string) error {
	q.Class = ""
	if len(fields) == 0 {
		return nil
	}
	q.Class = fields[0]
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if q.Class == "" || len(q.Class) > 64 || strings.Trim(q.Class, letters) != "" {
		return fmt.Errorf("class %.80q, expected 1 to 64 letters, digits, - and _", q.Class)
	}
	return nil
}

// arrival returns the time since the first timestamp.
func (a *azureRows) arrival(text string) (time.Duration, error) {
	if a.layout == "" {
		return 0, a.begin(text)
	}
	t, err := time.Parse(a.layout, text)
	if err != nil {
		return 0, fmt.Errorf("TIMESTAMP %q, expected one like the first, %s", text, a.first.Format(a.layout))
	}
	d := t.Sub(a.first)
	if d == math.MaxInt64 {
		return 0, fmt.Errorf("TIMESTAMP %q is centuries after the first", text)
	}
	return d, nil
}

func (a *azureRows) begin(text string) error {
	for _, layout := range azureTimes {
		if t, err := time.Parse(layout, text); err == nil {
			a.layout, a.first = layout, t
			return nil
		}
	}
	return fmt.Errorf("TIMESTAMP %q, expected one as 2023-11-16 18:17:03.9799600", text)
}

func tokens(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxTokens {
		return 0, fmt.Errorf("%s %q, expected a whole number from 0 to %d", name, text, maxTokens)
	}
	return n, nil
}

// csvCause drops the line number, which the caller knows.
func csvCause(err error) error {
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		return syntax.Err
	}
	return err
}

// arrivalsHeader is the first line of requests with arrivals and lengths, after comments. That of a recorded
// run has the times of the answer too.
const (
	arrivalsHeader = "arrival_s,input_tokens,output_tokens"
	recordedHeader = arrivalsHeader + ",first_token_s,last_token_s"
)

// recorded matches the beginning of a recorded run.
var recorded = regexp.MustCompile(`\A(#[^\n]*\n)*arrival_s,`)

// recordedRows are the lines of a recorded run. Lines that begin with # are comments.
type recordedRows struct {
	csv   *csv.Reader
	first time.Duration // the first arrival
	begun bool
	timed bool // with the times of the answer
}

// newRecordedRows reads the header and returns its line.
func newRecordedRows(r io.Reader) (rows *recordedRows, line int, err error) {
	c := csv.NewReader(r)
	c.Comment, c.ReuseRecord = '#', true
	header, err := c.Read()
	if err != nil {
		return nil, 1, csvCause(err)
	}
	line, _ = c.FieldPos(0)
	if _, err := columns(header, arrivalsHeader, "class"); err == nil {
		return &recordedRows{csv: c}, line, nil
	}
	if _, err := columns(header, recordedHeader, "class"); err != nil {
		return nil, line, fmt.Errorf("the header is %q, expected %s, then first_token_s,last_token_s or not, then class or not", strings.Join(header, ","), arrivalsHeader)
	}
	return &recordedRows{csv: c, timed: true}, line, nil
}

func (r *recordedRows) next(q *Request) (line int, err error) {
	fields, err := r.csv.Read()
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		return syntax.Line, syntax.Err
	}
	if err != nil {
		return 0, err
	}
	line, _ = r.csv.FieldPos(0)
	times, rest := fields[:1], fields[3:]
	if r.timed {
		times, rest = []string{fields[0], fields[3], fields[4]}, fields[5:]
	}
	var at [3]time.Duration
	for i, field := range times {
		v, err := strconv.ParseFloat(field, 64)
		if err != nil || !(v >= 0 && v < 1e9) {
			return line, fmt.Errorf("time %q, expected seconds from 0 to a billion", field)
		}
		at[i] = time.Duration(math.Round(v * 1e9))
	}
	if !r.begun {
		r.begun, r.first = true, at[0]
	}
	if r.timed && (at[1] < at[0] || at[2] < at[1]) {
		return line, fmt.Errorf("arrival %s, first token %s, last token %s: expected them in this order", fields[0], fields[3], fields[4])
	}
	q.Arrival, q.FirstToken, q.LastToken, q.PrefixBlocks = at[0]-r.first, 0, 0, nil
	if r.timed {
		q.FirstToken, q.LastToken = at[1]-r.first, at[2]-r.first
	}
	if q.InputTokens, err = tokens("input_tokens", fields[1]); err != nil {
		return line, err
	}
	if q.OutputTokens, err = tokens("output_tokens", fields[2]); err != nil {
		return line, err
	}
	return line, q.class(rest)
}

// mooncakeKeys are the keys of a line. Each must appear once, except for class, which may be absent,
// and no other.
var mooncakeKeys = []string{"timestamp", "input_length", "output_length", "hash_ids", "class"}

// maxLine is the largest length of a line in bytes. A prompt of a million tokens has 2,000 ids.
const maxLine = 16 << 20

// mooncakeRows are the lines of the JSON.
type mooncakeRows struct {
	lines *bufio.Reader
	text  []byte
	line  int
	first time.Duration // the first timestamp
}

func (m *mooncakeRows) next(q *Request) (int, error) {
	m.line++
	text, err := jsonobject.ReadLine(m.lines, m.text[:0], maxLine)
	if err != nil {
		return m.line, err
	}
	m.text = text
	values, err := mooncakeValues(text)
	if err != nil {
		return m.line, err
	}
	if err := q.mooncake(values); err != nil {
		return m.line, err
	}
	var classes []string
	if text := values[4]; text != "" {
		quoted, _ := strings.CutPrefix(text, `"`)
		name, _ := strings.CutSuffix(quoted, `"`)
		if len(text) != len(name)+2 {
			name = ""
		}
		classes = []string{name}
	}
	if err := q.class(classes); err != nil {
		return m.line, err
	}
	if m.line == 1 {
		m.first = q.Arrival
	}
	q.Arrival -= m.first
	return m.line, nil
}

// mooncakeValues returns the values of the keys, in their order.
func mooncakeValues(line []byte) (values [5]string, err error) {
	if len(line) == 0 {
		return values, errors.New("empty line, expected a JSON object")
	}
	members, err := jsonobject.Parse(line)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return values, errors.New("the line ends in the middle of a value: the file is incomplete or has values over several lines")
	case errors.Is(err, jsonobject.ErrNoObject):
		return values, fmt.Errorf("begins with %q, expected a JSON object", line[:min(len(line), 40)])
	case err != nil:
		return values, err
	}
	for _, m := range members {
		i := slices.Index(mooncakeKeys, m.Name)
		if i < 0 {
			return values, fmt.Errorf("unknown key %.60q%s (expected %s)", m.Name, names.Nearest(m.Name, mooncakeKeys), strings.Join(mooncakeKeys, ", "))
		}
		values[i] = string(m.Value)
	}
	for i, v := range values[:4] {
		if v == "" {
			return values, fmt.Errorf("no key %q, expected %s", mooncakeKeys[i], strings.Join(mooncakeKeys[:4], ", "))
		}
	}
	return values, nil
}

// mooncake fills in the request. Arrival is the timestamp as written.
func (q *Request) mooncake(values [5]string) (err error) {
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return fmt.Errorf("timestamp %s, expected whole milliseconds ≥ 0", values[0])
	}
	q.Arrival = time.Duration(ms) * time.Millisecond
	if q.InputTokens, err = tokens(mooncakeKeys[1], values[1]); err != nil {
		return err
	}
	if q.OutputTokens, err = tokens(mooncakeKeys[2], values[2]); err != nil {
		return err
	}
	if q.PrefixBlocks, err = blockIDs(q.PrefixBlocks[:0], values[3]); err != nil {
		return err
	}
	if want := (q.InputTokens + BlockTokens - 1) / BlockTokens; len(q.PrefixBlocks) != want {
		return fmt.Errorf("%d hash_ids contradict input_length %d: expected %d, one per %d tokens or part of them",
			len(q.PrefixBlocks), q.InputTokens, want, BlockTokens)
	}
	return nil
}

// blockIDs reads a JSON list of whole numbers into ids.
func blockIDs(ids []int64, text string) ([]int64, error) {
	inner, ok := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed {
		return nil, fmt.Errorf("hash_ids %.40s, expected a list", text)
	}
	if ids == nil {
		ids = []int64{} // of a prompt without tokens, which is known to have no block
	}
	if strings.TrimSpace(inner) == "" {
		return ids, nil
	}
	for element := range strings.SplitSeq(inner, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(element), 10, 64)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("hash_ids[%d] is %.40s, expected a whole number ≥ 0", len(ids), strings.TrimSpace(element))
		}
		ids = append(ids, id)
	}
	return ids, nil
}
