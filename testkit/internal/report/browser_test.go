package report_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"
)

// timeout bounds every action of the browser, on the busiest of machines.
const timeout = 2 * time.Minute

// A browser is a headless Chromium, controlled by the DevTools protocol over a pipe. Libraries for it depend on a
// WebSocket package and the whole protocol, which would be in the go.sum of every importer of testkit.
type browser struct {
	in  io.Writer
	mu  sync.Mutex
	ids int
	// answers are awaited by their ids, events are stored by session.
	answers map[int]chan answer
	events  map[string][]event
	died    chan struct{}
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

type event struct {
	Method string
	Params json.RawMessage
}

// startBrowser skips the test if there is no browser, unless one is required.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	switch required := os.Getenv("CI") != "" || os.Getenv("TESTKIT_REQUIRE_CHROMIUM") == "1"; {
	case path == "" && required:
		t.Fatal("there is no chromium in PATH: install it (apt-get install chromium), " +
			"or unset CI and TESTKIT_REQUIRE_CHROMIUM")
	case path == "":
		t.Skip("the page is opened in a real browser only where chromium is installed: apt-get install chromium")
	}
	return launch(t, path)
}

func launch(t *testing.T, path string) *browser {
	t.Helper()
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-extensions", "--hide-scrollbars", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe",
		"about:blank")
	fromUs, toIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromIt, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.ExtraFiles = []*os.File{fromUs, toUs} // 3 and 4 in the child, as --remote-debugging-pipe requires
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = fromUs.Close(), toUs.Close()
	b := &browser{
		in: toIt, answers: map[int]chan answer{}, events: map[string][]event{}, died: make(chan struct{}),
	}
	go b.receive(fromIt)
	t.Cleanup(func() {
		b.send("", "Browser.close", nil)
		select {
		case <-b.died:
		case <-time.After(timeout):
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		_ = toIt.Close()
		if t.Failed() {
			t.Logf("chromium said:\n%s", regexp.MustCompile(`(?m)^.*dbus.*\n`).ReplaceAllString(stderr.String(), ""))
		}
	})
	return b
}

func (b *browser) receive(from io.ReadCloser) {
	defer close(b.died)
	defer from.Close() //nolint:errcheck // it is closed with the browser
	r := bufio.NewReader(from)
	for {
		message, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			answer
			event

			ID        int
			SessionID string
		}
		if err := json.Unmarshal(bytes.TrimRight(message, "\x00"), &m); err != nil {
			panic(err)
		}
		b.mu.Lock()
		if m.ID != 0 {
			b.answers[m.ID] <- m.answer
		} else {
			b.events[m.SessionID] = append(b.events[m.SessionID], m.event)
		}
		b.mu.Unlock()
	}
}

// send returns the channel of the answer.
func (b *browser) send(session, method string, params any) <-chan answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ids++
	done := make(chan answer, 1)
	b.answers[b.ids] = done
	message, err := json.Marshal(map[string]any{"id": b.ids, "method": method, "params": params, "sessionId": session})
	if err != nil {
		panic(err)
	}
	if session == "" {
		message, _ = json.Marshal(map[string]any{"id": b.ids, "method": method, "params": params})
	}
	if _, err := b.in.Write(append(message, 0)); err != nil {
		close(done)
	}
	return done
}

// call sends a command and stores its result.
func (b *browser) call(t *testing.T, session, method string, params, result any) {
	t.Helper()
	select {
	case a, ok := <-b.send(session, method, params):
		if !ok || a.Error != nil {
			t.Fatalf("%s: %+v", method, a.Error)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				t.Fatalf("%s: %v", method, err)
			}
		}
	case <-b.died:
		t.Fatalf("%s: chromium is gone", method)
	case <-time.After(timeout):
		t.Fatalf("%s: no answer within %v", method, timeout)
	}
}
