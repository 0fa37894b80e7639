package intercept_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// server responds to writes with an object, and to watches with the events of the channel.
func server(t *testing.T) (url string, events chan string) {
	t.Helper()
	events = make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Query().Get("watch") == "" {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"metadata":{"name":"a","uid":"1","resourceVersion":"7"}}`)
			return
		}
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-events:
				_, _ = io.WriteString(w, e+"\n")
				w.(http.Flusher).Flush()
			case <-req.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, events
}

func client(w *intercept.Interceptor, process int) *http.Client {
	return &http.Client{Transport: w.Transport(process, &http.Transport{DisableKeepAlives: true})}
}

func send(t *testing.T, c *http.Client, method, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// sendWrite sends a write and returns its error.
func sendWrite(t *testing.T, c *http.Client, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// Go programs send built-in kinds as protobuf.
func TestRecordsProtobuf(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}, Spec: corev1.PodSpec{NodeName: "n"}}
	pod.APIVersion = "v1"
	pod.Kind = "Pod"
	var body strings.Builder
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(pod, &body); err != nil {
		t.Fatal(err)
	}
	_ = send(t, client(w, 1), http.MethodPost, url+pods, body.String()).Body.Close()
	var got corev1.Pod
	if err := json.Unmarshal(w.Calls()[0].Sent, &got); err != nil {
		t.Fatal(err)
	}
	if got.GenerateName != "a-" || got.Spec.NodeName != "n" || got.Kind != "Pod" {
		t.Errorf("recorded %s", w.Calls()[0].Sent)
	}
}

const pods = "/api/v1/namespaces/n/pods"

var podKind = intercept.GroupResource{Resource: "pods"}

func event(name string) string {
	return fmt.Sprintf(`{"type":"ADDED","object":{"metadata":{"namespace":"n","name":%q,"resourceVersion":"1"}}}`, name)
}

func TestRecordsWrites(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	resp := send(t, client(w, 1), http.MethodPost, url+pods, `{"metadata":{"generateName":"a"}}`)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), `"uid":"1"`) {
		t.Errorf("the response arrives as %q, %v", body, err)
	}
	c := w.Calls()[0]
	if c.Verb != "create" || c.Name != "a" || c.UID != "1" || c.Version != "7" || c.Code != 201 || !c.Reached {
		t.Errorf("recorded %+v", c)
	}
}

// A client with another client's configuration still has its requests recorded under its own process. The operator may
// use the scenario's configuration, for example.
func TestNestedInterceptorPasses(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	inner, outer := intercept.New(nil), intercept.New(nil)
	c := &http.Client{Transport: outer.Transport(1, inner.Transport(0, &http.Transport{DisableKeepAlives: true}))}
	_ = send(t, c, http.MethodPost, url+"/api/v1/namespaces/n/configmaps", `{"metadata":{"name":"a"}}`).Body.Close()
	if got, its := len(outer.Calls()), len(inner.Calls()); got != 1 || its != 0 {
		t.Errorf("the outer interceptor has %d requests and the inner %d, want 1 and 0", got, its)
	}
	if busy, _ := inner.Busy(); busy {
		t.Error("the inner interceptor is busy")
	}
}

func TestHoldPreservesOrder(t *testing.T) {
	t.Parallel()
	url, events := server(t)
	w := intercept.New(nil)
	resp := send(t, client(w, 1), http.MethodGet, url+pods+"?watch=1", "")
	defer func() { _ = resp.Body.Close() }()
	lines := make(chan string)
	go func() {
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
	}()
	w.Hold(podKind, func(f intercept.Frame) bool { return f.Name == "first" })
	for _, name := range []string{"first", "second", "third"} {
		go func() { events <- event(name) }()
		if name == "first" {
			if got := <-lines; !strings.Contains(got, name) {
				t.Fatalf("got %s, want the event that may pass", got)
			}
			continue
		}
		select {
		case got := <-lines:
			t.Fatalf("%s passes a closed gate", got)
		case <-time.After(50 * time.Millisecond): // no event can be awaited here
		}
		awaitHeld(t, w)
		if name == "second" {
			w.Release(podKind)
			if got := <-lines; !strings.Contains(got, name) {
				t.Fatalf("got %s, want the held event", got)
			}
			w.Hold(podKind, nil)
		}
	}
	if n := w.Expire(podKind); n != 1 {
		t.Errorf("%d watches were ended, want 1", n)
	}
	if got := <-lines; !strings.Contains(got, `"code":410`) {
		t.Errorf("the watch ends with %q, want 410", got)
	}
	if got, more := <-lines; more {
		t.Errorf("after its end the watch continues with %s", got)
	}
	if frames := w.Frames(); len(frames) != 2 || frames[1].Name != "second" {
		t.Errorf("recorded %v, want the two that arrived", frames)
	}
}

// awaitHeld waits until one event is held.
func awaitHeld(t *testing.T, w *intercept.Interceptor) {
	t.Helper()
	for end := time.After(10 * time.Second); w.Held(podKind) != 1; {
		select {
		case <-end:
			t.Fatalf("%d events are held, want 1", w.Held(podKind))
		case <-time.After(time.Millisecond):
		}
	}
}

// Hold does not delay what a watch sends in place of a list: the operator would not start. Whether an event passes may be
// known only later.
func TestHoldDelaysChangesOnly(t *testing.T) {
	t.Parallel()
	const end = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	url, events := server(t)
	w := intercept.New(nil)
	resp := send(t, client(w, 1), http.MethodGet, url+pods+"?watch=1&sendInitialEvents=true", "")
	defer func() { _ = resp.Body.Close() }()
	var mayPass atomic.Bool
	w.Hold(podKind, func(intercept.Frame) bool { return mayPass.Load() })
	lines := bufio.NewScanner(resp.Body)
	for _, line := range []string{event("existing"), end, event("new")} {
		go func() { events <- line }()
		if line == event("new") {
			awaitHeld(t, w)
			mayPass.Store(true)
		}
		if !lines.Scan() || lines.Text() != strings.TrimSpace(line) {
			t.Fatalf("got %q, want %s", lines.Text(), line)
		}
	}
	if n := w.Held(podKind); n != 0 {
		t.Errorf("%d events are held, want none", n)
	}
	if frames := w.Frames(); len(frames) != 2 || !frames[0].Initial || frames[1].Initial {
		t.Errorf("recorded %+v, want an initial event and another one", frames)
	}
}

// Foreign events are forwarded, and are neither recorded nor counted as activity.
func TestForeignEvents(t *testing.T) {
	t.Parallel()
	url, events := server(t)
	w := intercept.New(nil)
	w.Foreign = func(f intercept.Frame) bool { return f.Name == "foreign" }
	resp := send(t, client(w, 1), http.MethodGet, url+pods+"?watch=1", "")
	defer func() { _ = resp.Body.Close() }()
	w.Hold(podKind, func(f intercept.Frame) bool { return f.Name == "ours" })
	began := time.Now()
	lines := bufio.NewScanner(resp.Body)
	for _, name := range []string{"foreign", "foreign", "ours"} {
		go func() { events <- event(name) }()
		if !lines.Scan() || !strings.Contains(lines.Text(), name) {
			t.Fatalf("got %q, want %s", lines.Text(), name)
		}
		if busy, idle := w.Busy(); busy || !isActivity(w, began, name == "ours") {
			t.Errorf("%s: busy %v, idle for %v of %v", name, busy, idle, time.Since(began))
		}
	}
	if frames := w.Frames(); len(frames) != 1 || frames[0].Name != "ours" {
		t.Errorf("recorded %v, want the own event only", frames)
	}
}

// Client libraries leak goroutines that retain the body of a watch. The body must not retain the interceptor's records.
func TestClosedWatchReleasesInterceptor(t *testing.T) {
	t.Parallel()
	url, events := server(t)
	collected := make(chan struct{})
	watch := func() io.ReadCloser {
		w := intercept.New(nil)
		runtime.AddCleanup(w, func(struct{}) { close(collected) }, struct{}{})
		resp := send(t, client(w, 1), http.MethodGet, url+pods+"?watch=1", "")
		events <- event("a")
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.Body
	}
	body := watch()
	for end := time.After(10 * time.Second); ; {
		runtime.GC()
		select {
		case <-collected:
			runtime.KeepAlive(body)
			return
		case <-end:
			t.Fatal("the interceptor is not released")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestDisconnect(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	resp := send(t, client(w, 1), http.MethodGet, url+pods+"?watch=1", "")
	defer func() { _ = resp.Body.Close() }()
	w.Disconnect(1)
	if data, err := io.ReadAll(resp.Body); len(data) > 0 || err != nil {
		t.Errorf("the watch of a disconnected process returns %q, %v", data, err)
	}
	if err := sendWrite(t, client(w, 1), url+pods); !errors.Is(err, intercept.ErrDisconnected) {
		t.Errorf("a request of a disconnected process: %v", err)
	}
	for _, events := range []string{"/api/v1/namespaces/a/events", "/apis/events.k8s.io/v1/namespaces/a/events"} {
		if err := sendWrite(t, client(w, 1), url+events); err != nil {
			t.Errorf("an Event of a disconnected process: %v", err)
		}
	}
	if err := sendWrite(t, client(w, 2), url+pods); err != nil {
		t.Errorf("a request of the next process: %v", err)
	}
}

// loss forwards requests and loses the responses.
type loss struct{}

var errLost = errors.New("lost")

func (loss) Before(*http.Request, *intercept.Call) (*http.Response, error) {
	return nil, nil //nolint:nilnil // the request passes
}

func (loss) After(_ *http.Request, _ *intercept.Call, resp *http.Response) (*http.Response, error) {
	_ = resp.Body.Close()
	return nil, errLost
}

func TestLostResponseIsRecorded(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(loss{})
	if err := sendWrite(t, client(w, 1), url+pods); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	if c := w.Calls()[0]; !c.Reached || c.Code != 201 || c.UID != "1" || c.Lost != "lost" {
		t.Errorf("recorded %+v: the server completed it", c)
	}
	if busy, _ := w.Busy(); busy {
		t.Error("the request is still pending")
	}
}
