package operatorproc_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit"
)

// The faulty operators serve as a benchmark, so these tests show the bug of each. The other files show the correct
// operator in the same situation.

// syncMarker creates another Page and waits until it is served. By then, the operator has handled earlier events.
func (s *subject) syncMarker(name string) {
	s.t.Helper()
	page := newPage(name)
	page.Object["spec"] = map[string]any{"text": "marker"}
	s.k.Apply(page)
	s.k.Eventually(page, testkit.Ready())
}

func (s *subject) edit(text string) {
	s.t.Helper()
	page := newPage("example")
	s.k.Update(page, func() { _ = unstructured.SetNestedField(page.Object, text, "spec", "text") })
}

func text(want string) testkit.Check {
	return testkit.Match("the text "+want, func(c *corev1.ConfigMap) bool { return c.Data["index.html"] == want })
}

func TestPythonCreateOnly(t *testing.T) {
	t.Parallel()
	s := newSubject(t, "create-only", nil)
	s.start()
	s.must(s.do(2))
	s.k.Delete(newService())
	s.syncMarker("marker")
	c := newConfigMap()
	if s.k.Get(c); c.Data["index.html"] != "Hello" {
		t.Errorf("the change arrived: %v", c.Data)
	}
	s.k.Eventually(newService(), testkit.Gone())
}

func TestPythonAlreadyExists(t *testing.T) {
	t.Parallel()
	t.Run("Foreign", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t, "already-exists", nil)
		s.k.Apply(foreign())
		s.start()
		s.must(s.do(1)) // the status is Ready
		s.k.Eventually(newConfigMap(), text("foreign"))
		s.edit("Hello again")
		s.k.Eventually(newConfigMap(), text("Hello again"))
	})
	t.Run("ChangedWhileDown", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t, "already-exists", nil)
		s.start()
		s.must(s.do(1))
		s.crash()
		s.edit("Hello again")
		s.start()
		s.k.Eventually(newPage("example"), testkit.Ready()) // for the new text
		s.syncMarker("marker")
		s.k.Eventually(newConfigMap(), text("Hello"))
	})
}

func TestPythonStatusForbidden(t *testing.T) {
	t.Parallel()
	s := newSubject(t, "status-forbidden", nil)
	i := s.start()
	s.must(s.do(2))
	s.awaitLog("Error updating status for Page example: Forbidden", 1)
	page := newPage("example")
	if s.k.Get(page); page.Object["status"] != nil {
		t.Errorf("it has a status: %v", page.Object["status"])
	}
	s.stopInOrder(i)
}

// breaker breaks watches on request.
type breaker struct {
	mu     sync.Mutex
	bodies []interface{ Close() error }
}

func (b *breaker) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err == nil && isWatch(req) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.bodies = append(b.bodies, resp.Body)
		}
		return resp, err
	})
}

func (b *breaker) watches() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.bodies)
}

func (b *breaker) breakAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range b.bodies {
		_ = body.Close()
	}
	b.bodies = nil
}

func TestPythonWatchDies(t *testing.T) {
	t.Parallel()
	t.Run("faulty", func(t *testing.T) {
		t.Parallel()
		b := &breaker{}
		s := newSubject(t, "watch-dies", b.wrap)
		i := s.start()
		s.must(s.do(1))
		pollUntil(t, "all is watched", func() bool { return b.watches() == 3 })
		s.syncMarker("marker") // the operator has handled the events of the other Page
		b.breakAll()
		s.awaitLog("Traceback", 1)
		s.edit("Hello again")
		s.k.Consistently(newConfigMap(), 500*time.Millisecond, text("Hello"))
		if n := b.watches(); n > 0 {
			t.Errorf("it watches again, %d times", n)
		}
		select {
		case <-i.Done():
			t.Error("the process has exited, and a restart would hide the bug")
		default:
		}
	})
	t.Run("correct", func(t *testing.T) {
		t.Parallel()
		b := &breaker{}
		s := newSubject(t, "correct", b.wrap)
		s.start()
		s.must(s.do(1))
		pollUntil(t, "all is watched", func() bool { return b.watches() == 3 })
		b.breakAll()
		s.edit("Hello again")
		s.k.Eventually(newConfigMap(), text("Hello again"))
		for _, line := range s.lines() {
			if strings.Contains(line, "Traceback") {
				t.Error(line)
			}
		}
	})
}

func TestPythonCountInMemory(t *testing.T) {
	t.Parallel()
	revision := func(want int64) testkit.Check {
		return testkit.Match("the revision", func(u *unstructured.Unstructured) bool {
			got, _, _ := unstructured.NestedInt64(u.Object, "status", "revision")
			return got == want
		})
	}
	s := newSubject(t, "count-in-memory", nil)
	s.start()
	s.must(s.do(2))
	s.k.Eventually(newPage("example"), revision(2))
	s.crash()
	s.start()
	s.k.Eventually(newPage("example"), revision(1))
}
