package external

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvreplay/kvreplay/policies"
)

const (
	// mostBuffered is the number of bytes of messages that wait for a step that needs an answer.
	mostBuffered = 1 << 16
	// mostHello is the length of the longest greeting.
	mostHello = 1 << 16
	// threads is the variable that limits the threads of NumPy, scikit-learn and LightGBM. Each worker has a
	// child, so that more threads only take processors from other workers.
	threads = "OMP_NUM_THREADS"
	// graceOfMessages is the time in which the rest of stderr is read after the end of a child. Only a program
	// that it started, in another process group, keeps stderr open.
	graceOfMessages = 10 * time.Second
	// graceOfClosed is the time in which a child may end after it closed its input or output.
	graceOfClosed = time.Second
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
	stream int32        // the number of the stream that the last message is about
	asked  []*Policy    // policies that wait for an answer, in the order of the answers
	sent   int          // the first ones of them, whose questions the child has
	rest   chan error   // of a write that goes on during reads, or nil
	waits  atomic.Int64 // begins and ends of waits for the child: odd while kvreplay waits
	owed   atomic.Int64 // answers
	slow   atomic.Bool
	once   sync.Once
	ended  atomic.Bool // and waited for: its number may belong to another process
	state  error       // of its end
}

// launch starts the program.
func (p *program) launch() (*child, error) {
	c := &child{cmd: exec.Command(p.words[0], p.words[1:]...), messages: new(tail), timeout: p.timeout}
	c.cmd.Stderr, c.cmd.WaitDelay = c.messages, graceOfMessages
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
	if err := c.cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("the program does not start: %w%s", err, remedy(err))
	}
	go c.watch()
	return c, nil
}

// remedy returns the remedy for a program that does not start, or nothing.
func remedy(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return ". Make it executable (chmod +x), or name its interpreter, as in python3 mine.py"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		return ". Check its path, and the interpreter in the first line of a script"
	}
	return ""
}

const (
	// looks is the least number of times that watch looks at a child within its longest time for an answer.
	looks = 8
	// mostPause is the longest time between two looks.
	mostPause = time.Second
)

// watch ends the child if it is slow. A timer for each wait would cost more than the answer of a quick child.
func (c *child) watch() {
	pause := min(c.timeout/looks, mostPause)
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	before, same := int64(0), 0
	for range ticker.C {
		if c.ended.Load() {
			return
		}
		now := c.waits.Load()
		if same++; now != before {
			before, same = now, 0
		}
		limit := int((c.timeout+pause-1)/pause) * int(max(1, c.owed.Load()))
		if now%2 == 1 && same >= limit {
			c.slow.Store(true)
			c.kill()
			return
		}
	}
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
	n := len(c.unsent)
	c.unsent = slices.Grow(c.unsent, 4*len(list))[:n+4*len(list)]
	for i, to := 0, c.unsent[n:]; i < len(list) && len(to) >= 4; i, to = i+1, to[4:] {
		binary.LittleEndian.PutUint32(to, uint32(list[i]))
	}
}

// about begins a message about a stream of a number.
func (c *child) about(stream int32, kind byte) {
	if c.stream != stream {
		c.stream = stream
		c.begin(choose)
		c.number(stream)
		c.end()
	}
	c.begin(kind)
}

// send sends the messages. The child must have no unanswered question, or it could wait for its answer to be
// read while its input is full.
func (c *child) send() error {
	c.waits.Add(1)
	defer c.waits.Add(1)
	var err error
	if c.rest != nil {
		err, c.rest = <-c.rest, nil
	}
	messages := c.unsent
	c.sent = len(c.asked)
	c.owed.Store(int64(c.sent))
	endsInQuestion := c.sent == 1 && messages[c.from+4] == evict
	if err == nil && (len(messages) <= pipeRoom || c.sent == 0 || endsInQuestion) {
		_, err = c.in.Write(messages)
		c.unsent = messages[:0]
	} else if err == nil { // the child may answer before it has read everything
		c.unsent, c.rest = nil, make(chan error, 1)
		go func(rest chan<- error) {
			_, err := c.in.Write(messages)
			rest <- err
		}(c.rest)
	}
	if err != nil {
		return c.broken("", "standard input")
	}
	return nil
}

// receive reads an answer of a kind and at most a number of bytes. It is valid until the next call.
func (c *child) receive(kind byte, most int) ([]byte, error) {
	c.waits.Add(1)
	defer c.waits.Add(1)
	answer, why, err := read(c.answers, c.reply, kind, most)
	if err != nil {
		return nil, c.broken(why, "standard output")
	}
	c.reply = answer
	return answer, nil
}

// next gives the next answer to its policy. If the child breaks, all policies that wait for it fail.
func (c *child) next() {
	p := c.asked[0]
	if c.sent == 0 {
		p.failed(c.send())
	}
	if p.err == nil {
		answer, err := c.receive(victims, 4*p.blocks)
		if err == nil && len(answer)%4 != 0 {
			err = c.broken(fmt.Sprintf("the program names victims in %d bytes, expected 4 for each", len(answer)), "")
		}
		p.failed(err)
		p.answer = p.answer[:0]
		for ; err == nil && len(answer) >= 4; answer = answer[4:] {
			p.answer = append(p.answer, int32(binary.LittleEndian.Uint32(answer)))
		}
	}
	p.answered = true
	c.sent--
	if c.asked = slices.Delete(c.asked, 0, 1); p.err != nil {
		c.abandon()
	}
}

// abandon fails all policies that wait for an answer.
func (c *child) abandon() {
	for _, other := range c.asked {
		other.answered, other.err = true, policies.ErrOtherStream
	}
	c.asked, c.sent = nil, 0
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
	if head[4] == kind && length > int64(most) {
		return nil, fmt.Sprintf("its message %c has %d bytes, expected at most %d (a victim has 4)", kind, length, most), errNoMessage
	}
	if head[4] != kind || length < 0 {
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

// broken ends the child and returns an error that says why, with the end of its stderr. If why is empty,
// the child closed the pipe of this name, or ended.
func (c *child) broken(why, closed string) error {
	switch slow := c.slow.Load(); {
	case slow && c.exited():
		why = fmt.Sprintf("the program ended: %v, but a program that it started keeps its output open", c.cmd.ProcessState)
	case slow:
		why = fmt.Sprintf("the program did not answer within %v: raise timeout=", c.timeout)
	case why == "":
		why = c.ending(closed)
	}
	c.stop()
	if text := c.messages.text(); text != "" {
		why += ". Its last messages:\n" + text
	}
	return errors.New(why)
}

// ending waits for the end of a child that closed a pipe, and says how it ended. It kills a child that
// runs on.
func (c *child) ending(closed string) string {
	c.waits.Add(1) // so that watch leaves the child to the timer
	defer c.waits.Add(1)
	c.in.Close()
	killed := time.AfterFunc(graceOfClosed, c.kill)
	c.wait()
	switch {
	case !killed.Stop() && !(canExit && c.cmd.ProcessState.Exited()):
		return fmt.Sprintf("the program closed its %s and ran on: keep it open until the program ends", closed)
	case c.state != nil:
		return "the program ended: " + c.state.Error()
	}
	return "the program ended with exit status 0, expected answers until its input ends"
}

// canExit is true if the system tells programs that ended by themselves from killed ones.
const canExit = runtime.GOOS != "windows"

// exited stops the child and reports whether it is known to have ended by itself.
func (c *child) exited() bool {
	c.stop()
	return canExit && c.cmd.ProcessState != nil && c.cmd.ProcessState.Exited()
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
