package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
)

// faults is a transport between an operator and the API server. Its zero value changes nothing.
type faults struct {
	// before may respond instead of the server; with a nil response the request is sent.
	before func(*http.Request) (*http.Response, error)
	// after may replace the server's response to a request that was executed.
	after func(*http.Request, *http.Response) (*http.Response, error)
	// lag delays the events of watches, in nanoseconds. A lower value also releases events that wait already.
	lag atomic.Int64
	// lagging selects the watches that lag delays; nil selects all.
	lagging func(*http.Request) bool

	mu           sync.Mutex
	next         http.RoundTripper
	countedTimes []time.Time // times of the requests that counted selects

	counted func(*http.Request) bool
	// watched is called at the beginning and the end of each watch. It is optional.
	watched func(req *http.Request, open bool)
}

// config returns an option that sends an operator's requests through the faults.
func (f *faults) config(k *testkit.K) testkit.StartOption {
	return testkit.WithConfig(f.wrap(k.Config))
}

// wrap returns a copy of cfg with the faults as a transport.
func (f *faults) wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.next = next
		return f
	})
	return cfg
}

// RoundTrip implements http.RoundTripper.
func (f *faults) RoundTrip(req *http.Request) (*http.Response, error) {
	if f.counted != nil && f.counted(req) {
		f.mu.Lock()
		f.countedTimes = append(f.countedTimes, time.Now())
		f.mu.Unlock()
	}
	if f.before != nil {
		if resp, err := f.before(req); resp != nil || err != nil {
			return resp, err
		}
	}
	resp, err := f.next.RoundTrip(req)
	if err == nil && req.URL.Query().Get("watch") != "" {
		body := &laggingBody{ReadCloser: resp.Body, late: &f.lag, done: make(chan struct{})}
		if f.lagging != nil && !f.lagging(req) {
			body.late = &atomic.Int64{}
		}
		body.closed = sync.OnceFunc(func() {
			close(body.done)
			if f.watched != nil {
				f.watched(req, false)
			}
		})
		if f.watched != nil {
			f.watched(req, true)
		}
		resp.Body = body
	}
	if err == nil && f.after != nil {
		return f.after(req, resp)
	}
	return resp, err
}

// times returns when the counted requests were sent.
func (f *faults) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.countedTimes...)
}

// laggingBody delays the data of a response body.
type laggingBody struct {
	io.ReadCloser

	late   *atomic.Int64
	done   chan struct{} // closed with the body
	closed func()
}

func (b *laggingBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

func (b *laggingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for arrived := time.Now(); n > 0 && time.Since(arrived) < time.Duration(b.late.Load()); {
		select {
		case <-time.After(time.Millisecond):
		case <-b.done:
			return n, err
		}
	}
	return n, err
}

// isApply reports whether the request is a server-side apply of the resource.
func isApply(req *http.Request, resource string) bool {
	return req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/"+resource+"/") &&
		req.Header.Get("Content-Type") == "application/apply-patch+yaml"
}

// response returns a failure as the API server would send it.
func response(req *http.Request, status metav1.Status) *http.Response {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = metav1.StatusFailure
	body, _ := utiljson.Marshal(status)
	return &http.Response{
		StatusCode: int(status.Code), Status: strconv.Itoa(int(status.Code)), Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)),
	}
}

// serverError returns a response with an internal error.
func serverError(req *http.Request) *http.Response {
	return response(req, metav1.Status{
		Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd has a bad day",
	})
}

// withoutPermission runs the operator as a user with all permissions but those to read this resource.
func withoutPermission(k *testkit.K, resource string) testkit.StartOption {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"e2e.homeostat.dev"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"*"}},
	}
	for _, r := range []string{"configmaps", "secrets"} {
		if r != resource {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{r}, Verbs: []string{"*"}})
		}
	}
	return withRules(k, rules)
}

// withRules runs the operator as a user with these permissions in the test's namespace.
func withRules(k *testkit.K, rules []rbacv1.PolicyRule) testkit.StartOption {
	const user = "without-rights"
	k.Apply(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules})
	k.Apply(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	cfg := rest.CopyConfig(k.Config)
	cfg.Impersonate.UserName = user
	k.Wait("the rights are known", func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: k.Namespace, Group: "e2e.homeostat.dev", Resource: "sites", Verb: "watch",
			},
		}}
		if err := k.Client.Create(ctx, review); err != nil || !review.Status.Allowed {
			return errors.Join(err, errors.New("not allowed yet"))
		}
		return nil
	})
	return testkit.WithConfig(cfg)
}
