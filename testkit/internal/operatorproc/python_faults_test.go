package operatorproc_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

func newPage(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("testkit.homeostat.dev/v1")
	u.SetKind("Page")
	u.SetName(name)
	return u
}

func newConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "example"}}
}

func newService() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "example"}}
}

// outcome is the operator's result for the Page "example".
type outcome struct {
	Text     string
	Port     int32
	Target   intstr.IntOrString
	Ready    string
	Revision int64
}

// edited is the outcome of the scenario's first two steps.
var edited = outcome{
	Text: "Hello again", Port: 8081, Target: intstr.FromInt32(8080), Ready: "True Served served on port 8081", Revision: 2,
}

func (s *subject) outcome() outcome {
	s.t.Helper()
	page, configMap, service := newPage("example"), newConfigMap(), newService()
	for _, object := range []client.Object{page, configMap, service} {
		s.k.Get(object)
	}
	o := outcome{
		Text: configMap.Data["index.html"], Port: service.Spec.Ports[0].Port, Target: service.Spec.Ports[0].TargetPort,
	}
	o.Revision, _, _ = unstructured.NestedInt64(page.Object, "status", "revision")
	conditions, _, _ := unstructured.NestedSlice(page.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		o.Ready = fmt.Sprintf("%v %v %v", c["status"], c["reason"], c["message"])
	}
	return o
}

// answer returns a rejection that looks like one of the API server.
func answer(req *http.Request, code int, reason metav1.StatusReason) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":%q,"code":%d}`,
		reason, code)
	return &http.Response{
		StatusCode: code, Request: req, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"0"}},
	}
}

// once affects the first request of each kind, and forwards later ones.
func once(affected func(*http.Request) bool, instead func(http.RoundTripper, *http.Request) (*http.Response, error)) (
	wrap func(http.RoundTripper) http.RoundTripper, count *atomic.Int32,
) {
	var seen sync.Map
	count = &atomic.Int32{}
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if !affected(req) {
				return next.RoundTrip(req)
			}
			if _, known := seen.LoadOrStore(fmt.Sprint(req.Method, req.URL.Path, isWatch(req)), true); known {
				return next.RoundTrip(req)
			}
			count.Add(1)
			return instead(next, req)
		})
	}, count
}

// The result is the same if each request fails once.
func TestPythonOperatorRetriesErrors(t *testing.T) {
	t.Parallel()
	anything := func(*http.Request) bool { return true }
	tests := map[string]struct {
		reason   string
		affected func(*http.Request) bool
		// instead returns a rejection or another error.
		code    int
		refusal metav1.StatusReason
		instead func(http.RoundTripper, *http.Request) (*http.Response, error)

		count int32 // at least
	}{
		"Conflict": {
			reason: "a concurrent write", affected: isWrite, count: 5,
			code: http.StatusConflict, refusal: metav1.StatusReasonConflict,
		},
		"TooManyRequests": {
			reason: "the server is busy", affected: anything, count: 10,
			code: http.StatusTooManyRequests, refusal: metav1.StatusReasonTooManyRequests,
		},
		"InternalError": {
			reason: "etcd changes its leader", affected: anything, count: 10,
			code: http.StatusInternalServerError, refusal: metav1.StatusReasonInternalError,
		},
		"ServiceUnavailable": {
			reason: "the server restarts", affected: anything, count: 10,
			code: http.StatusServiceUnavailable, refusal: metav1.StatusReasonServiceUnavailable,
		},
		"Lost": {
			reason: "a load balancer restarts", affected: anything, count: 10,
			instead: func(http.RoundTripper, *http.Request) (*http.Response, error) { return nil, errLost },
		},
		"DoneAndLost": {
			reason: "the response to a completed write is lost", affected: isWrite, count: 5,
			instead: func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				if resp, err := next.RoundTrip(req); err == nil {
					_ = resp.Body.Close()
				}
				return nil, errLost
			},
		},
		"Gone": {
			reason: "the version to watch from is too old", affected: isWatch, count: 3,
			instead: func(_ http.RoundTripper, req *http.Request) (*http.Response, error) {
				resp := answer(req, http.StatusOK, "")
				resp.Body = io.NopCloser(strings.NewReader(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1",` +
					`"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}` + "\n"))
				return resp, nil
			},
		},
		"Ended": {
			reason: "the server ends a watch at any time", affected: isWatch, count: 3,
			instead: func(_ http.RoundTripper, req *http.Request) (*http.Response, error) {
				resp := answer(req, http.StatusOK, "")
				resp.Body = http.NoBody
				return resp, nil
			},
		},
	}
	for name, tt := range tests {
		if testing.Short() && name != "Conflict" && name != "Gone" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			instead := tt.instead
			if instead == nil {
				instead = func(_ http.RoundTripper, req *http.Request) (*http.Response, error) {
					return answer(req, tt.code, tt.refusal), nil
				}
			}
			wrap, count := once(tt.affected, instead)
			s := newSubject(t, "correct", wrap)
			i := s.start()
			s.must(s.do(2))
			if diff := cmp.Diff(edited, s.outcome()); diff != "" {
				t.Errorf("(-want +got), although only %s:\n%s", tt.reason, diff)
			}
			// The operator has a thread for each watch.
			pollUntil(t, fmt.Sprintf("%d requests have failed", tt.count), func() bool { return count.Load() >= tt.count })
			s.stopInOrder(i)
		})
	}
}

// The result is the same if the operator is killed after each of its writes, before the response.
func TestPythonOperatorRecoversFromCrashes(t *testing.T) {
	t.Parallel()
	const writes = 6 // two children and the status, twice
	for n := range int32(writes) {
		if testing.Short() && n != writes/2 {
			continue
		}
		t.Run(fmt.Sprintf("After%d", n+1), func(t *testing.T) {
			t.Parallel()
			fault := &crasher{n: n + 1, crashed: make(chan struct{})}
			s := newSubject(t, "correct", fault.wrap)
			fault.crash = s.crash
			s.start()
			done := make(chan error, 1)
			go func() { done <- s.do(2) }()
			await(t, "the crash", fault.crashed)
			s.start()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			s.syncMarker("marker") // the second process has listed everything by then
			if diff := cmp.Diff(edited, s.outcome()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPythonOperatorCorrectsDrift(t *testing.T) {
	t.Parallel()
	s := newSubject(t, "correct", nil)
	s.start()
	s.must(s.do(2))
	k := s.k
	tests := map[string]struct {
		reason string
		drift  func()
		object client.Object
		check  testkit.Check
	}{
		"DeletedConfigMap": {
			"it comes back, and is no new revision", func() { k.Delete(newConfigMap()) }, newConfigMap(),
			testkit.Match("the text", func(c *corev1.ConfigMap) bool { return c.Data["index.html"] == "Hello again" }),
		},
		"DeletedService": {
			"it comes back", func() { k.Delete(newService()) }, newService(), testkit.Exists(),
		},
		"ChangedText": {
			"it is put right", func() {
				c := newConfigMap()
				k.Update(c, func() { c.Data = map[string]string{"index.html": "defaced", "theirs": "stays"} })
			}, newConfigMap(),
			testkit.Match("the text", func(c *corev1.ConfigMap) bool {
				return c.Data["index.html"] == "Hello again" && c.Data["theirs"] == "stays"
			}),
		},
		"ChangedPort": {
			"it is put right", func() {
				service := newService()
				k.Update(service, func() { service.Spec.Ports[0].Port = 1 })
			}, newService(),
			testkit.Match("the port", func(s *corev1.Service) bool { return s.Spec.Ports[0].Port == 8081 }),
		},
		"Orphaned": {
			"it is adopted", func() {
				service := newService()
				k.Update(service, func() { service.OwnerReferences = nil })
			}, newService(),
			testkit.Match("an owner", func(s *corev1.Service) bool { return len(s.OwnerReferences) == 1 }),
		},
	}
	for name, tt := range tests {
		tt.drift()
		k.Eventually(tt.object, tt.check)
		k.Eventually(newPage("example"), testkit.Ready())
		if diff := cmp.Diff(edited, s.outcome()); diff != "" {
			t.Errorf("%s (-want +got), because %s:\n%s", name, tt.reason, diff)
		}
	}
}

// foreign returns an object that has a child's name and no owner.
func foreign() *corev1.ConfigMap {
	c := newConfigMap()
	c.Data = map[string]string{"index.html": "foreign"}
	return c
}

func TestPythonForeignObjectIsNeverWritten(t *testing.T) {
	t.Parallel()
	s := newSubject(t, "correct", nil)
	s.k.Apply(foreign())
	s.start()
	page := newPage("example")
	page.Object["spec"] = map[string]any{"text": "Hello"}
	s.k.Apply(page)
	s.k.Eventually(page, testkit.Reason("Ready", metav1.ConditionFalse, "NameTaken"))
	c := newConfigMap()
	if s.k.Get(c); c.Data["index.html"] != "foreign" || len(c.OwnerReferences) > 0 {
		t.Errorf("it was changed: %v", c)
	}
	s.k.Delete(c)
	s.k.Eventually(page, testkit.Ready())
}

// No watch tells of an object that a reconcile has read and that is gone before the first list of its kind.
func TestPythonDeletionBeforeFirstList(t *testing.T) {
	t.Parallel()
	deleted := make(chan struct{})
	var reads atomic.Int32
	s := newSubject(t, "correct", func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/configmaps") {
				select {
				case <-deleted:
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
			}
			resp, err := next.RoundTrip(req)
			if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/configmaps/example") {
				reads.Add(1)
			}
			return resp, err
		})
	})
	s.k.Apply(foreign())
	s.start()
	page := newPage("example")
	page.Object["spec"] = map[string]any{"text": "Hello"}
	s.k.Apply(page)
	s.k.Eventually(page, testkit.Reason("Ready", metav1.ConditionFalse, "NameTaken"))
	// The second reconcile follows the event of its own status.
	pollUntil(t, "the Page is reconciled twice", func() bool { return reads.Load() >= 2 })
	s.k.Delete(foreign())
	close(deleted)
	s.k.Eventually(page, testkit.Ready())
}

// The status reports a rejected write, and the operator continues after the cause is removed.
func TestPythonRejectedWriteIsReported(t *testing.T) {
	t.Parallel()
	var closed atomic.Bool
	closed.Store(true)
	s := newSubject(t, "correct", func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if closed.Load() && isWrite(req) && strings.HasSuffix(req.URL.Path, "/services") {
				return answer(req, http.StatusForbidden, metav1.StatusReasonForbidden), nil
			}
			return next.RoundTrip(req)
		})
	})
	s.start()
	page := newPage("example")
	page.Object["spec"] = map[string]any{"text": "Hello"}
	s.k.Apply(page)
	s.k.Eventually(page, testkit.Reason("Ready", metav1.ConditionFalse, "Refused"))
	closed.Store(false)
	s.k.Eventually(page, testkit.Ready())
}

// An idle operator writes nothing, regardless of events.
func TestPythonIdleOperatorWritesNothing(t *testing.T) {
	t.Parallel()
	var writes atomic.Int32
	s := newSubject(t, "correct", func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if isWrite(req) {
				writes.Add(1)
			}
			return next.RoundTrip(req)
		})
	})
	s.start()
	s.must(s.do(2))
	before := writes.Load()
	s.k.Consistently(newPage("example"), 500*time.Millisecond, testkit.Ready())
	s.crash()
	s.start()
	s.awaitLog("serving the Pages", 2)
	// Events arrive in order, so a later Page is reconciled later.
	marker := newPage("marker")
	marker.Object["spec"] = map[string]any{"text": "marker"}
	s.k.Apply(marker)
	s.k.Eventually(marker, testkit.Ready())
	if after := writes.Load(); before != 6 || after-before != 3 {
		t.Errorf("it wrote %d times, want 6, and then %d times, want 3 for the marker", before, after-before)
	}
}
