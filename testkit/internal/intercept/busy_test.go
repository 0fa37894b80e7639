package intercept_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// awaitBusy waits until the operator is, or is not, busy.
func awaitBusy(t *testing.T, w *intercept.Interceptor, want bool) {
	t.Helper()
	for end := time.After(10 * time.Second); ; {
		busy, _ := w.Busy()
		if busy == want {
			return
		}
		select {
		case <-end:
			t.Errorf("busy is %v, want %v", busy, want)
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// isActivity reports whether there was activity since a time, or none, as wanted. Time may pass around the call of Busy.
func isActivity(w *intercept.Interceptor, since time.Time, want bool) bool {
	before := time.Now()
	_, idle := w.Busy()
	if want {
		return !time.Now().Add(-idle).Before(since)
	}
	return !before.Add(-idle).After(since)
}

// An operator whose informer waits for the existing objects is busy: while the API server makes its watch cache current,
// before the response or before the last of these objects, no request of the operator and no event may come for seconds.
func TestInitializingInformerIsBusy(t *testing.T) {
	t.Parallel()
	const end = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	respond, events := make(chan struct{}), make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-respond:
		case <-req.Context().Done():
		}
		w.(http.Flusher).Flush()
		for e := range events {
			_, _ = io.WriteString(w, e+"\n")
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(events) })
	w := intercept.New(nil)
	sent := make(chan struct{})
	var lastSent time.Time
	go func() {
		defer close(sent)
		awaitBusy(t, w, true)
		close(respond)
		for _, line := range []string{event("existing"), end} {
			if busy, _ := w.Busy(); !busy {
				t.Error("the operator is idle before it has received all objects")
			}
			lastSent = time.Now()
			events <- line
		}
	}()
	resp := send(t, client(w, 1), http.MethodGet, s.URL+pods+"?watch=1&sendInitialEvents=true", "")
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	const waits = "a watch has not sent all existing objects; the last activity was "
	if got := w.Activity(); !w.Initializing() || !strings.HasPrefix(got, waits) {
		t.Errorf("the activity is %q, want %q", got, waits)
	}
	for range 2 {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
	}
	<-sent
	awaitBusy(t, w, false)
	if got := w.Activity(); w.Initializing() || !strings.HasPrefix(got, "the last activity was ") {
		t.Errorf("the activity is %q after all objects were sent", got)
	}
	if !isActivity(w, lastSent, true) {
		t.Error("the end of the existing objects is no activity")
	}
	w.Disconnect(1)
}

// A read is activity unless the process has sent it before: an operator that starts reads much, and an idle one may poll.
func TestFirstReadIsActivity(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	for _, read := range []struct {
		process int
		path    string
		first   bool
	}{{1, "/apis", true}, {1, "/apis", false}, {1, pods, true}, {1, pods, false}, {2, pods, true}, {2, pods + "/a", true}} {
		began := time.Now()
		_ = send(t, client(w, read.process), http.MethodGet, url+read.path, "").Body.Close()
		if !isActivity(w, began, read.first) {
			t.Errorf("get %s by process %d, want activity: %v", read.path, read.process, read.first)
		}
	}
}

// A watch of a stopped process delivers nothing, and does not count.
func TestInitializingInformerOfPausedProcess(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	resp := send(t, client(w, 1), http.MethodGet, url+pods+"?watch=1&sendInitialEvents=true", "")
	defer func() { _ = resp.Body.Close() }()
	awaitBusy(t, w, true)
	w.Pause(1)
	if busy, _ := w.Busy(); busy {
		t.Error("the paused operator is busy")
	}
	w.Disconnect(1)
	awaitBusy(t, w, false)
}
