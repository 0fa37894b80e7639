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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// server answers writes with an object and watches with the events that are sent on the channel.
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

// try makes a write of which only the error matters.
func try(t *testing.T, c *http.Client, url string) error {
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

// Programs in Go send Kubernetes's own kinds as protobuf.
func TestRecordsProtobuf(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}, Spec: corev1.PodSpec{NodeName: "n"}}
	pod.APIVersion, pod.Kind = "v1", "Pod"
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

var podKind = intercept.Kind{Resource: "pods"}

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
		t.Errorf("the answer arrives as %q, %v", body, err)
	}
	c := w.Calls()[0]
	if c.Verb != "create" || c.Name != "a" || c.UID != "1" || c.Version != "7" || c.Code != 201 || !c.Reached {
		t.Errorf("recorded %+v", c)
	}
}

// Who is given the configuration of somebody else, for example the operator that of the scenario, still does what it does in
// its own name.
func TestOneRequestOneLine(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	inner, outer := intercept.New(nil), intercept.New(nil)
	c := &http.Client{Transport: outer.Transport(1, inner.Transport(0, &http.Transport{DisableKeepAlives: true}))}
	_ = send(t, c, http.MethodPost, url+"/api/v1/namespaces/n/configmaps", `{"metadata":{"name":"a"}}`).Body.Close()
	if got, its := len(outer.Calls()), len(inner.Calls()); got != 1 || its != 0 {
		t.Errorf("the outer line has %d requests and the inner %d, want 1 and 0", got, its)
	}
	if busy, _ := inner.Busy(); busy {
		t.Error("the inner line is busy")
	}
}

func TestHoldKeepsTheOrder(t *testing.T) {
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
	w.Hold(podKind, 1)
	for _, name := range []string{"first", "second", "third"} {
		go func() { events <- event(name) }()
		if name == "first" {
			if got := <-lines; !strings.Contains(got, name) {
				t.Fatalf("got %s, want the one that may pass", got)
			}
			continue
		}
		select {
		case got := <-lines:
			t.Fatalf("%s passes a gate that is closed", got)
		case <-time.After(50 * time.Millisecond): // nothing is to be waited for
		}
		if name == "second" {
			w.Release(podKind)
			if got := <-lines; !strings.Contains(got, name) {
				t.Fatalf("got %s, want what was held back", got)
			}
			w.Hold(podKind, 0)
		}
	}
	if n := w.Expire(podKind); n != 1 {
		t.Errorf("%d watches were ended, want 1", n)
	}
	if got := <-lines; !strings.Contains(got, `"code":410`) {
		t.Errorf("the watch ends with %q, want 410", got)
	}
	if got, more := <-lines; more {
		t.Errorf("after its end it goes on with %s", got)
	}
	if frames := w.Frames(); len(frames) != 2 || frames[1].Name != "second" {
		t.Errorf("recorded %v, want the two that arrived", frames)
	}
}

// News that is no concern of the operator's reaches it, and otherwise it is as if there were none.
func TestForeignNews(t *testing.T) {
	t.Parallel()
	url, events := server(t)
	w := intercept.New(nil)
	w.Foreign = func(f intercept.Frame) bool { return f.Name == "foreign" }
	resp := send(t, client(w, 1), http.MethodGet, url+pods+"?watch=1", "")
	defer func() { _ = resp.Body.Close() }()
	w.Hold(podKind, 1)
	began := time.Now()
	lines := bufio.NewScanner(resp.Body)
	for _, name := range []string{"foreign", "foreign", "ours"} {
		go func() { events <- event(name) }()
		if !lines.Scan() || !strings.Contains(lines.Text(), name) {
			t.Fatalf("got %q, want %s", lines.Text(), name)
		}
		busy, idle := w.Busy()
		if isNews := idle < time.Since(began); busy || isNews != (name == "ours") {
			t.Errorf("%s: idle for %v of %v", name, idle, time.Since(began))
		}
	}
	if frames := w.Frames(); len(frames) != 1 || frames[0].Name != "ours" {
		t.Errorf("recorded %v, want what is ours", frames)
	}
}

// Client libraries leave goroutines behind that keep the body of a watch, and a wire knows all that an operator was sent.
func TestClosedBodyKeepsNothing(t *testing.T) {
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
			t.Fatal("the wire stays")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	resp := send(t, client(w, 1), http.MethodGet, url+pods+"?watch=1", "")
	defer func() { _ = resp.Body.Close() }()
	w.Sever(1)
	if data, err := io.ReadAll(resp.Body); len(data) > 0 || err != nil {
		t.Errorf("the watch of a process that was cut off says %q, %v", data, err)
	}
	if err := try(t, client(w, 1), url+pods); !errors.Is(err, intercept.ErrSevered) {
		t.Errorf("a request of a process that was cut off: %v", err)
	}
	if err := try(t, client(w, 2), url+pods); err != nil {
		t.Errorf("a request of the next process: %v", err)
	}
}

// loss lets requests through and loses the answers.
type loss struct{}

var errLost = errors.New("lost")

func (loss) Before(*http.Request, *intercept.Call) (*http.Response, error) {
	return nil, nil //nolint:nilnil // it passes
}

func (loss) After(_ *http.Request, _ *intercept.Call, resp *http.Response) (*http.Response, error) {
	_ = resp.Body.Close()
	return nil, errLost
}

func TestLostAnswerIsRecorded(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(loss{})
	if err := try(t, client(w, 1), url+pods); !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	if c := w.Calls()[0]; !c.Reached || c.Code != 201 || c.UID != "1" || c.Lost != "lost" {
		t.Errorf("recorded %+v: it was carried out", c)
	}
	if busy, _ := w.Busy(); busy {
		t.Error("it still counts as being under way")
	}
}
