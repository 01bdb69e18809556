// Package browsertest drives a headless Chromium in tests of HTML pages.
package browsertest

import (
	"bufio"
	_ "embed" // axe-core
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// requireBrowser is the variable that makes a missing browser an error.
const requireBrowser = "KVREPLAY_REQUIRE_BROWSER"

// browserTime is the longest that a browser may take for one command.
const browserTime = 5 * time.Minute

// A Browser is a headless Chromium with one tab. It obeys the commands of the DevTools Protocol,
// version 1.3, over pipes, as JSON that ends in a zero byte.
type Browser struct {
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

// New starts Chromium with an empty tab. Without Chromium the test is skipped, unless
// KVREPLAY_REQUIRE_BROWSER=1.
func New(t *testing.T) *Browser {
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
	profile, err3 := os.MkdirTemp("", "kvreplay-browser-")
	fatal.If(t, errors.Join(err, err2, err3))
	t.Cleanup(func() {
		for range 100 { // processes of the browser may write after its end
			if os.RemoveAll(profile) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("%s is left", profile)
	})
	// Root, as in containers, has no sandbox.
	c := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
		"--no-first-run", "--disable-background-networking", "--hide-scrollbars", "--user-data-dir="+profile, "about:blank")
	c.ExtraFiles = []*os.File{theirIn, theirOut} // its files 3 and 4
	fatal.If(t, c.Start())
	theirIn.Close()
	theirOut.Close()
	b := &Browser{t: t, to: to, from: from, replies: bufio.NewReader(from)}
	t.Cleanup(func() {
		b.session = ""
		_ = b.send("Browser.close", nil)
		stop := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
		_ = c.Wait()
		stop.Stop()
		to.Close()
		from.Close()
	})
	var target struct{ TargetID string }
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Call(domain+".enable", nil, nil)
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

func (b *Browser) send(method string, params any) error {
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

// Call sends a command, keeps the events that arrive before its reply, and reads the result.
func (b *Browser) Call(method string, params, result any) {
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

func (b *Browser) read(doing string) (m message) {
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

// Open shows a file and waits until its scripts have run.
func (b *Browser) Open(path string) {
	b.t.Helper()
	b.Call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	b.Eval(`new Promise((done) => document.readyState === "complete" ? done() : addEventListener("load", done))`, nil)
	b.Settle()
}

// Settle waits until observers have run and the page is drawn.
func (b *Browser) Settle() {
	b.t.Helper()
	b.Eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`, nil)
}

// Eval runs JavaScript, waits for its promise, and reads its value.
func (b *Browser) Eval(script string, value any) {
	b.t.Helper()
	var reply struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &reply)
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

// Size sets the size of the tab in CSS pixels.
func (b *Browser) Size(width, height int) {
	b.t.Helper()
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.Settle()
}

// Prefer sets the colour scheme of the system.
func (b *Browser) Prefer(scheme string) {
	b.t.Helper()
	b.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.Settle()
}

// Complaints returns the errors that the page reported, and its requests other than the file.
func (b *Browser) Complaints() (texts []string) {
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

// axe is axe-core 4.14.1 (MPL-2.0), which checks accessibility.
//
//go:embed axe-4.14.1.min.js
var axe string

// Violations checks the open page with axe-core at some widths, in CSS pixels, in the light and the
// dark scheme. It returns the faults, and the widths at which the page is wider than the window.
func (b *Browser) Violations(widths ...int) (texts []string) {
	b.t.Helper()
	b.Eval(axe+"; 0", nil)
	for _, width := range widths {
		for _, scheme := range []string{"light", "dark"} {
			b.Size(width, 900)
			b.Prefer(scheme)
			at := fmt.Sprintf("%d px, %s", width, scheme)
			var wide int
			if b.Eval("document.documentElement.scrollWidth", &wide); wide > width {
				texts = append(texts, fmt.Sprintf("%s: the page is %d px wide", at, wide))
			}
			var violations []struct {
				ID, Help string
				Nodes    []struct{ HTML, FailureSummary string }
			}
			b.Eval(`axe.run({resultTypes: ["violations"]}).then((r) => r.violations)`, &violations)
			for _, v := range violations {
				texts = append(texts, fmt.Sprintf("%s: %s: %s: %.300s %s", at, v.ID, v.Help, v.Nodes[0].HTML, v.Nodes[0].FailureSummary))
			}
		}
	}
	return texts
}
