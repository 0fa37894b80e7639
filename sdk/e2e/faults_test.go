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

// faults stands between an operator and the API server. Its zero value changes nothing.
type faults struct {
	// before may answer instead of the server; nil lets the request pass.
	before func(*http.Request) (*http.Response, error)
	// after may replace the server's answer to a request that was carried out.
	after func(*http.Request, *http.Response) (*http.Response, error)
	// late is by how much events of watches are held back.
	late atomic.Int64
	// delayed says for which watches that holds. Nil means all.
	delayed func(*http.Request) bool

	mu   sync.Mutex
	next http.RoundTripper
	seen []time.Time // when requests for which counted is true were sent

	counted func(*http.Request) bool
	// watched is told of each watch, and of its end. Optional.
	watched func(req *http.Request, open bool)
}

// config makes an operator talk through the faults.
func (f *faults) config(k *testkit.K) testkit.StartOption {
	return testkit.WithConfig(f.wrap(k.Config))
}

// wrap returns a copy of cfg whose requests go through the faults.
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
		f.seen = append(f.seen, time.Now())
		f.mu.Unlock()
	}
	if f.before != nil {
		if resp, err := f.before(req); resp != nil || err != nil {
			return resp, err
		}
	}
	resp, err := f.next.RoundTrip(req)
	if err == nil && req.URL.Query().Get("watch") != "" {
		body := &lateBody{ReadCloser: resp.Body, late: &f.late}
		if f.delayed != nil && !f.delayed(req) {
			body.late = &atomic.Int64{}
		}
		if f.watched != nil {
			f.watched(req, true)
			body.closed = sync.OnceFunc(func() { f.watched(req, false) })
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
	return append([]time.Time(nil), f.seen...)
}

// lateBody delivers what the server sent a while later.
type lateBody struct {
	io.ReadCloser

	late   *atomic.Int64
	closed func() // nil if nobody asks
}

func (b *lateBody) Close() error {
	if b.closed != nil {
		b.closed()
	}
	return b.ReadCloser.Close()
}

func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if late := b.late.Load(); late > 0 && n > 0 {
		<-time.After(time.Duration(late))
	}
	return n, err
}

// isApply tells server-side applies of a resource from other requests.
func isApply(req *http.Request, resource string) bool {
	return req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/"+resource+"/") &&
		req.Header.Get("Content-Type") == "application/apply-patch+yaml"
}

// answer is a failure as the API server would send it.
func answer(req *http.Request, status metav1.Status) *http.Response {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = metav1.StatusFailure
	body, _ := utiljson.Marshal(status)
	return &http.Response{
		StatusCode: int(status.Code), Status: strconv.Itoa(int(status.Code)), Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)),
	}
}

// broken is an answer that says nothing but that something went wrong.
func broken(req *http.Request) *http.Response {
	return answer(req, metav1.Status{
		Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd has a bad day",
	})
}

// withoutRightsOn runs the operator as a user who may do everything but read this resource.
func withoutRightsOn(k *testkit.K, resource string) testkit.StartOption {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"e2e.homeostat.dev"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"*"}},
	}
	for _, r := range []string{"configmaps", "secrets"} {
		if r != resource {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{r}, Verbs: []string{"*"}})
		}
	}
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
