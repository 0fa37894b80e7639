package intercept_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

const lease = "/apis/coordination.k8s.io/v1/namespaces/n/leases/operator"

// begin sends a request and returns a channel for its error.
func begin(ctx context.Context, t *testing.T, c *http.Client, method, url string) <-chan error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		resp, err := c.Transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	return done
}

// awaitRequests waits until this many requests have begun and those that are not held have ended.
func awaitRequests(t *testing.T, w *intercept.Interceptor, n int) {
	t.Helper()
	for {
		begun := len(w.Calls())
		if busy, _ := w.Busy(); begun >= n && !busy {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%d requests have begun, want %d", len(w.Calls()), n)
		}
	}
}

// reached returns the number of requests that the server has received, and of those that count as late.
func reached(w *intercept.Interceptor) (all, late int) {
	for _, c := range w.Calls() {
		if c.Reached {
			all++
		}
		if c.Late {
			late++
		}
	}
	return all, late
}

// A write of a paused process is sent later, although its client has given up. Its next request is held again.
func TestPause(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	c := client(w, 1)
	if !w.Pause(1) || w.Pause(2) {
		t.Error("an interceptor pauses one process once")
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := begin(ctx, t, c, http.MethodPost, url+pods)
	_ = begin(t.Context(), t, c, http.MethodPut, url+lease)
	awaitRequests(t, w, 2)
	cancel()
	if err := sendWrite(t, client(w, 2), url+pods); err != nil {
		t.Errorf("a process that is not paused: %v", err)
	}
	if all, late := reached(w); all != 1 || late != 0 {
		t.Errorf("the server received %d requests, of which %d are late, want only that of the other process", all, late)
	}
	w.SendHeld()
	if err := <-first; err != nil {
		t.Errorf("the held write: %v", err)
	}
	second := begin(t.Context(), t, c, http.MethodGet, url+pods)
	awaitRequests(t, w, 4)
	if all, late := reached(w); all != 2 || late != 1 {
		t.Errorf("the server received %d requests, of which %d are late, want 2 and 1", all, late)
	}
	w.Resume()
	if err := <-second; err != nil {
		t.Errorf("the request after the pause: %v", err)
	}
	if err := sendWrite(t, c, url+pods); err != nil {
		t.Errorf("a process that goes on: %v", err)
	}
	if all, late := reached(w); all != 4 || late != 2 {
		t.Errorf("the server received %d requests, of which %d are late, want 4 and 2", all, late)
	}
}

// A process that was paused does not learn of it: its requests for a Lease, and its events, are held until its end.
func TestPauseLasts(t *testing.T) {
	t.Parallel()
	url, events := server(t)
	w := intercept.New(nil)
	c := client(w, 1)
	watch := send(t, c, http.MethodGet, url+pods+"?watch=1", "")
	defer func() { _ = watch.Body.Close() }()
	w.Pause(1)
	renewal := begin(t.Context(), t, c, http.MethodPut, url+lease)
	write := begin(t.Context(), t, c, http.MethodPost, url+pods)
	awaitRequests(t, w, 3)
	events <- event("late")
	w.Resume()
	if err := <-write; err != nil {
		t.Errorf("the held write: %v", err)
	}
	if got := w.Paused(); got != 1 {
		t.Errorf("process %d was paused, want 1", got)
	}
	w.Disconnect(1)
	if err := <-renewal; !errors.Is(err, intercept.ErrDisconnected) {
		t.Errorf("the renewal: %v, want %v", err, intercept.ErrDisconnected)
	}
	if n, err := watch.Body.Read(make([]byte, 1)); n > 0 {
		t.Errorf("the event was delivered, and then %v", err)
	}
	if got := w.Paused(); got != 0 {
		t.Errorf("process %d is paused after its end", got)
	}
}

// A process can be ended while it is paused. Nothing is sent then.
func TestDisconnectPaused(t *testing.T) {
	t.Parallel()
	url, _ := server(t)
	w := intercept.New(nil)
	w.Pause(1)
	write := begin(t.Context(), t, client(w, 1), http.MethodPost, url+pods)
	awaitRequests(t, w, 1)
	w.Disconnect(1)
	if err := <-write; !errors.Is(err, intercept.ErrDisconnected) {
		t.Errorf("the held write: %v, want %v", err, intercept.ErrDisconnected)
	}
	if all, _ := reached(w); all != 0 {
		t.Errorf("the server received %d requests, want none", all)
	}
	if busy, _ := w.Busy(); busy {
		t.Error("the held request counts as pending after its end")
	}
}
