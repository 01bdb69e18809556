package render_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// requireBrowser is the variable that makes a missing browser an error.
const requireBrowser = "KVREPLAY_REQUIRE_BROWSER"

// browserTime is the longest that a browser may take for one command.
const browserTime = 60 * time.Second

// A browser is a headless Chromium with one tab. It obeys the commands of the DevTools Protocol,
// version 1.3, over pipes, as JSON that ends in a zero byte.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *os.File
	replies *bufio.Reader
	session string
	last    int
	events  []message
}

// message is an event, or a reply if it has an ID.
type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// newBrowser starts Chromium with an empty tab. Without Chromium the test is skipped, unless
// KVREPLAY_REQUIRE_BROWSER=1.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := chromium()
	switch {
	case err == nil:
	case os.Getenv(requireBrowser) == "1":
		t.Fatalf("%s=1, but: %v", requireBrowser, err)
	default:
		t.Skipf("no page is opened without Chromium (%s=1 makes this an error): %v", requireBrowser, err)
	}
	theirIn, to, err := os.Pipe()
	from, theirOut, err2 := os.Pipe()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	// Root, as in containers, has no sandbox.
	c := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
		"--no-first-run", "--disable-background-networking", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "about:blank")
	c.ExtraFiles = []*os.File{theirIn, theirOut} // its files 3 and 4
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, to: to, from: from, replies: bufio.NewReader(from)}
	t.Cleanup(func() {
		b.session = ""
		_ = b.send("Browser.close", nil)
		stop := time.AfterFunc(10*time.Second, func() { _ = c.Process.Kill() })
		_ = c.Wait()
		stop.Stop()
		to.Close()
		from.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// chromium finds the browser.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("none of chromium, chromium-browser and google-chrome is installed")
}

func (b *browser) send(method string, params any) error {
	b.last++
	command := map[string]any{"id": b.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		return err
	}
	_, err = b.to.Write(append(text, 0))
	return err
}

// call sends a command, keeps the events that arrive before its reply, and reads the result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	if err := b.send(method, params); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		m := b.read(method)
		if m.ID == 0 {
			b.events = append(b.events, m)
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			b.t.Fatalf("%s: %v: %.200s", method, err, m.Result)
		}
		return
	}
}

func (b *browser) read(doing string) (m message) {
	b.t.Helper()
	if err := b.from.SetReadDeadline(time.Now().Add(browserTime)); err != nil {
		b.t.Fatal(err)
	}
	text, err := b.replies.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("%s: the browser does not answer: %v", doing, err)
	}
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

// open shows a file and waits until its scripts have run.
func (b *browser) open(path string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	b.eval(`new Promise((done) => document.readyState === "complete" ? done() : addEventListener("load", done))`, nil)
	b.settle()
}

// settle waits until observers have run and the page is drawn.
func (b *browser) settle() {
	b.t.Helper()
	b.eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`, nil)
}

// eval runs JavaScript, waits for its promise, and reads its value.
func (b *browser) eval(script string, value any) {
	b.t.Helper()
	var reply struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &reply)
	if e := reply.ExceptionDetails; e != nil {
		b.t.Fatalf("%.100s: %s %s", script, e.Text, e.Exception.Description)
	}
	if value == nil {
		return
	}
	if err := json.Unmarshal(reply.Result.Value, value); err != nil {
		b.t.Fatalf("%.100s: %v: %s", script, err, reply.Result.Value)
	}
}

// size sets the size of the tab in CSS pixels.
func (b *browser) size(width, height int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.settle()
}

// prefer sets the colour scheme of the system.
func (b *browser) prefer(scheme string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.settle()
}

// complaints returns the errors that the page reported, and its requests other than the file.
func (b *browser) complaints() (texts []string) {
	for _, e := range b.events {
		var p struct {
			Type    string
			Entry   struct{ Level, Text string }
			Request struct{ URL string }
		}
		if err := json.Unmarshal(e.Params, &p); err != nil {
			b.t.Fatal(err)
		}
		switch e.Method {
		case "Runtime.exceptionThrown":
			texts = append(texts, string(e.Params))
		case "Runtime.consoleAPICalled":
			texts = append(texts, fmt.Sprintf("console.%s: %s", p.Type, e.Params))
		case "Log.entryAdded":
			texts = append(texts, p.Entry.Level+": "+p.Entry.Text)
		case "Network.requestWillBeSent":
			if !strings.HasPrefix(p.Request.URL, "file://") && p.Request.URL != "about:blank" {
				texts = append(texts, "request of "+p.Request.URL)
			}
		case "Page.javascriptDialogOpening":
			texts = append(texts, "a dialog: "+string(e.Params))
		}
	}
	return texts
}
