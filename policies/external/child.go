package external

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostBuffered is the number of bytes of messages that wait for a step that needs an answer.
	mostBuffered = 1 << 16
	// mostHello is the length of the longest greeting.
	mostHello = 1 << 16
	// threads is the variable that limits the threads of NumPy, scikit-learn and LightGBM. Each worker has a
	// child, so that more threads only take processors from other workers.
	threads = "OMP_NUM_THREADS"
	// mostStderr is the number of bytes that an error shows of a child's stderr, the last ones.
	mostStderr = 2000
)

// child is a running program.
type child struct {
	cmd      *exec.Cmd
	in, out  *os.File // our ends
	answers  *bufio.Reader
	messages *tail // its stderr
	timeout  time.Duration

	unsent []byte // messages
	from   int    // the begin of the last one
	reply  []byte
	timer  *time.Timer // ends the child
	slow   atomic.Bool
	once   sync.Once
	ended  atomic.Bool // and waited for: its number may belong to another process
	state  error       // of its end
}

// launch starts the program.
func (p *program) launch() (*child, error) {
	c := &child{cmd: exec.Command(p.words[0], p.words[1:]...), messages: new(tail), timeout: p.timeout}
	c.cmd.Stderr, c.cmd.WaitDelay = c.messages, time.Second
	if _, set := os.LookupEnv(threads); !set {
		c.cmd.Env = append(os.Environ(), threads+"=1")
	}
	isolate(c.cmd)
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer theirOut.Close()
	c.cmd.Stdin, c.cmd.Stdout, c.in, c.out = theirIn, theirOut, in, out
	in.Fd() // blocks from now on: waiting in the kernel is quicker than in the runtime's poller
	out.Fd()
	c.answers = bufio.NewReaderSize(out, 1<<16)
	c.timer = time.AfterFunc(time.Hour, func() {
		c.slow.Store(true)
		c.kill()
	})
	c.timer.Stop()
	if err := c.cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("the program does not start: %w", err)
	}
	return c, nil
}

// begin begins a message, and end sets its length.
func (c *child) begin(kind byte) {
	c.from = len(c.unsent)
	c.unsent = append(c.unsent, 0, 0, 0, 0, kind)
}

func (c *child) end() {
	binary.LittleEndian.PutUint32(c.unsent[c.from:], uint32(len(c.unsent)-c.from-4))
}

// number appends numbers of four bytes.
func (c *child) number(list ...int32) {
	for _, x := range list {
		c.unsent = binary.LittleEndian.AppendUint32(c.unsent, uint32(x))
	}
}

// flush sends the messages.
func (c *child) flush() error {
	c.timer.Reset(c.timeout)
	defer c.timer.Stop()
	_, err := c.in.Write(c.unsent)
	c.unsent = c.unsent[:0]
	if err != nil {
		return c.broken("")
	}
	return nil
}

// ask sends the messages and reads the answer, of a kind and at most a number of bytes. It is valid until
// the next call.
func (c *child) ask(kind byte, most int) ([]byte, error) {
	c.timer.Reset(c.timeout)
	defer c.timer.Stop()
	if _, err := c.in.Write(c.unsent); err != nil {
		return nil, c.broken("")
	}
	c.unsent = c.unsent[:0]
	answer, why, err := read(c.answers, c.reply, kind, most)
	if err != nil {
		return nil, c.broken(why)
	}
	c.reply = answer
	return answer, nil
}

// errNoMessage is the error of an answer that is no message of the expected type.
var errNoMessage = errors.New("no message")

// read reads a message of a kind and at most a number of bytes into the memory of reply. why says what
// is wrong with it, and is empty if there is nothing to read.
func read(r *bufio.Reader, reply []byte, kind byte, most int) (answer []byte, why string, err error) {
	head, err := r.Peek(5)
	if len(head) > 0 && err != nil {
		why = fmt.Sprintf("it wrote %q to stdout and no message: print to stderr", head)
	}
	if err != nil {
		return nil, why, err
	}
	length := int64(binary.LittleEndian.Uint32(head)) - 1
	if head[4] != kind || length < 0 || length > int64(most) {
		text, _ := r.Peek(min(r.Buffered(), 60)) // they are buffered
		return nil, fmt.Sprintf("it wrote %q to stdout, expected a message %c of at most %d bytes: print to stderr", text, kind, most), errNoMessage
	}
	answer = slices.Grow(reply[:0], int(length))[:length]
	if _, err = r.Discard(5); err == nil {
		_, err = io.ReadFull(r, answer)
	}
	if err != nil {
		return nil, "its answer ends too early", err
	}
	return answer, "", nil
}

// broken ends the child and returns an error that says why, with the end of its stderr.
func (c *child) broken(why string) error {
	switch slow := c.slow.Load(); {
	case slow:
		why = fmt.Sprintf("the program did not answer within %v: raise timeout=", c.timeout)
	case why == "":
		c.in.Close()
		time.AfterFunc(time.Second, c.kill) // it closed its output, or is ending
		c.wait()
		why = "the program ended"
		if c.state != nil {
			why += ": " + c.state.Error()
		}
	}
	c.stop()
	if text := c.messages.text(); text != "" {
		why += ". Its last messages:\n" + text
	}
	return errors.New(why)
}

// stop ends the child, with all that it started.
func (c *child) stop() {
	c.kill()
	c.wait()
}

func (c *child) kill() {
	if !c.ended.Load() {
		kill(c.cmd)
	}
}

func (c *child) wait() {
	c.once.Do(func() {
		c.state = c.cmd.Wait()
		c.ended.Store(true)
		c.in.Close()
		c.out.Close()
	})
}

// tail keeps the last bytes that are written.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if extra := len(t.last) - mostStderr; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.last), "?"))
}
