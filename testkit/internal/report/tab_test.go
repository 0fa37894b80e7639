package report_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A tab is one open page.
type tab struct {
	t       *testing.T
	b       *browser
	session string
	url     string
}

// view holds the size and the color scheme of a tab.
type view struct {
	width, height int  // 1280 x 900 if zero
	dark          bool // or light
	noScript      bool
}

// open opens a page in a new tab and waits until it is loaded.
func (b *browser) open(t *testing.T, page []byte, v view) *tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	var target struct{ TargetID string }
	b.call(t, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call(t, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &tab{t: t, b: b, session: attached.SessionID, url: "file://" + file}
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.call(domain+".enable", nil, nil)
	}
	p.resize(cmp.Or(v.width, 1280), cmp.Or(v.height, 900))
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	p.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
	p.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": v.noScript}, nil)
	p.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
	p.call("Page.navigate", map[string]any{"url": p.url}, nil)
	p.until("the page is loaded", "document.readyState === 'complete' && location.protocol === 'file:'")
	return p
}

func (p *tab) call(method string, params, result any) {
	p.t.Helper()
	p.b.call(p.t, p.session, method, params, result)
}

func (p *tab) resize(width, height int) {
	p.t.Helper()
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
	}, nil)
}

// eval stores the value of an expression in the page.
func (p *tab) eval(expression string, result any) {
	p.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.call("Runtime.evaluate", map[string]any{
		"expression": expression, "returnByValue": true, "awaitPromise": true,
	}, &out)
	if e := out.ExceptionDetails; e != nil {
		p.t.Fatalf("in the page: %s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(out.Result.Value, result); err != nil {
		p.t.Fatalf("in the page: %s: %v", expression, err)
	}
}

func (p *tab) text(expression string) string {
	p.t.Helper()
	var s string
	p.eval(expression, &s)
	return s
}

func (p *tab) number(expression string) float64 {
	p.t.Helper()
	var n float64
	p.eval(expression, &n)
	return n
}

func (p *tab) is(expression string) bool {
	p.t.Helper()
	var b bool
	p.eval("!!("+expression+")", &b)
	return b
}

// until waits for a condition of the page.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	for deadline := time.Now().Add(timeout); !p.is(expression); {
		if time.Now().After(deadline) {
			p.t.Fatalf("waiting until %s: not within %v: %s", what, timeout, expression)
		}
	}
}

// press types a named key, such as Tab, Enter or ArrowLeft.
func (p *tab) press(key string) {
	p.t.Helper()
	codes := map[string]int{
		"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "End": 35, "Home": 36,
		"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
	}
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	switch key {
	case "Enter":
		event["text"] = "\r"
	case "Space":
		event["key"], event["text"] = " ", " "
	}
	p.call("Input.dispatchKeyEvent", event, nil)
	delete(event, "text")
	event["type"] = "keyUp"
	p.call("Input.dispatchKeyEvent", event, nil)
}

// point moves the mouse over an element. click also presses its button there.
func (p *tab) point(selector string) (x, y float64) {
	p.t.Helper()
	var at struct{ X, Y float64 }
	p.eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
		const r = e.getBoundingClientRect();
		return {x: r.x + r.width / 2, y: r.y + r.height / 2};
	})()`, selector), &at)
	p.mouse("mouseMoved", at.X, at.Y)
	return at.X, at.Y
}

func (p *tab) click(selector string) {
	p.t.Helper()
	x, y := p.point(selector)
	p.mouse("mousePressed", x, y)
	p.mouse("mouseReleased", x, y)
}

func (p *tab) mouse(kind string, x, y float64) {
	p.t.Helper()
	event := map[string]any{"type": kind, "x": x, "y": y}
	if kind != "mouseMoved" {
		event["button"], event["clickCount"] = "left", 1
	}
	p.call("Input.dispatchMouseEvent", event, nil)
}

// screenshot stores the visible part of the page, or all of it, among the artifacts of the test: `go test -artifacts`.
func (p *tab) screenshot(name string, whole bool) {
	p.t.Helper()
	var shot struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": whole}, &shot)
	p.keep(name+".png", shot.Data)
}

func (p *tab) keep(name, encoded string) []byte {
	p.t.Helper()
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.t.ArtifactDir(), name), data, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// errors returns the output of the browser's console and the requests for anything but the page's own file.
func (p *tab) errors() error {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	var found []error
	for _, e := range p.b.events[p.session] {
		switch e.Method {
		case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.webSocketCreated":
			found = append(found, fmt.Errorf("%s: %s", e.Method, e.Params))
		case "Network.requestWillBeSent":
			var sent struct{ Request struct{ URL string } }
			if err := json.Unmarshal(e.Params, &sent); err != nil {
				return err
			}
			if url, _, _ := strings.Cut(sent.Request.URL, "#"); url != p.url && !strings.HasPrefix(url, "data:") {
				found = append(found, errors.New("the page asks for "+sent.Request.URL))
			}
		}
	}
	return errors.Join(found...)
}
