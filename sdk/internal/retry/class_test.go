package retry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

var things = schema.GroupResource{Group: "example.com", Resource: "things"}

func TestErrorTable(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(things, "a", errors.New("changed"))
	for name, test := range map[string]struct {
		err  error
		want Class
	}{
		"nothing":                {nil, ClassNone},
		"wait":                   {Wait("NoSecret", "secret %s is missing", "a"), ClassWait},
		"wait inside an error":   {fmt.Errorf("doing it: %w", Wait("NoSecret", "")), ClassWait},
		"invalid":                {Invalid("BadImage", ""), ClassInvalid},
		"invalid beats wait":     {errors.Join(Wait("A", ""), Invalid("B", "")), ClassInvalid},
		"a panic beats all":      {errors.Join(Invalid("B", ""), NewPanicError(1)), ClassPanic},
		"stale":                  {fmt.Errorf("applying: %w", apply.ErrStale), ClassStale},
		"conflict of a child":    {conflict, ClassStale},
		"conflict of the object": {MarkOutdated(conflict), ClassOutdated},
		"forbidden, when stale":  {errors.Join(apply.ErrStale, apierrors.NewForbidden(things, "a", nil)), ClassTransient},
		"not synced":             {ErrNotSynced, ClassStale},
		"server error":           {apierrors.NewInternalError(errors.New("etcd")), ClassTransient},
		"anything else":          {errors.New("the registry is down"), ClassTransient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Classify(test.err); got != test.want {
				t.Errorf("class %d, want %d", got, test.want)
			}
		})
	}
}

func TestRejectionByCodeAndCause(t *testing.T) {
	t.Parallel()
	terminating := apierrors.NewForbidden(things, "a", errors.New("x"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		err  error
		kind string
		want Class
	}{
		"invalid":                        {apierrors.NewInvalid(schema.GroupKind{}, "a", nil), "Thing", ClassRejected},
		"forbidden":                      {apierrors.NewForbidden(things, "a", errors.New("quota")), "Thing", ClassRejected},
		"bad request":                    {apierrors.NewBadRequest("no"), "Thing", ClassRejected},
		"the namespace is being deleted": {terminating, "Thing", ClassWait},
		"the namespace does not exist": {
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"), "Thing", ClassWait,
		},
		"it does not exist": {apierrors.NewNotFound(things, "a"), "Thing", ClassTransient},
		"another object of that name": {
			errors.Join(apply.ErrStale, apierrors.NewInvalid(schema.GroupKind{}, "a", nil)), "Thing", ClassStale,
		},
		"unavailable": {apierrors.NewServiceUnavailable("later"), "Thing", ClassTransient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Classify(Rejection(test.kind, "Thing a", test.err)); got != test.want {
				t.Errorf("class %d, want %d", got, test.want)
			}
		})
	}
}

// A repeated failure must not be a change of status, so what differs between two occurrences is left out.
func TestDescribeIsStable(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"ports": {
			"read tcp 10.0.0.9:41234->10.0.0.1:443: connection reset", "read tcp 10.0.0.9:5->10.0.0.1:443: connection reset",
		},
		"durations": {"gave up after 1.5s", "gave up after 12ms"},
		"addresses": {"nil at 0xc000123456", "nil at 0xc000abcdef"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if a, b := Describe(errors.New(pair[0])), Describe(errors.New(pair[1])); a != b {
				t.Errorf("%q and %q", a, b)
			}
		})
	}
	if a, b := Describe(errors.New("2 of 3 pods")), Describe(errors.New("1 of 3 pods")); a == b {
		t.Errorf("what differs is lost: %q", a)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 12: 204800 * time.Millisecond,
		13: 5 * time.Minute, 1000: 5 * time.Minute,
	} {
		if got := backoff(n); got != want {
			t.Errorf("backoff(%d) = %s, want %s", n, got, want)
		}
	}
	if got := BackoffAfter(apierrors.NewTooManyRequests("slow down", 7), 1); got != 7*time.Second {
		t.Errorf("the server asked for 7 s, and it will be %s", got)
	}
	if got := BackoffAfter(apierrors.NewTooManyRequests("slow down", 1), 10); got != backoff(10) {
		t.Errorf("the backoff is longer than what the server asks for, and it will be %s", got)
	}
}

// Only what is forbidden may be so because the present child is still there.
func TestQuotaHint(t *testing.T) {
	t.Parallel()
	const advice = "if the replacement does not fit beside the present one, to delete that makes room"
	for name, c := range map[string]struct {
		err   error
		wants bool
	}{
		"forbidden": {apierrors.NewForbidden(things, "a", errors.New("exceeded quota")), true},
		"invalid":   {apierrors.NewInvalid(schema.GroupKind{}, "a", nil), false},
		"transient": {apierrors.NewInternalError(errors.New("etcd")), false},
	} {
		err := WithQuotaHint(Rejection("Thing", "Thing a", c.err))
		if got := strings.HasSuffix(err.Error(), "; "+advice); got != c.wants {
			t.Errorf("%s: it says %q", name, err)
		}
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"Waiting": Wait("Waiting", "for it"), "Bad": fmt.Errorf("reading it: %w", Invalid("Bad", "correct it")),
	} {
		if got := Reason(err); got != want {
			t.Errorf("%v: reason %q, want %q", err, got, want)
		}
	}
	for _, err := range []error{nil, errors.New("timeout"), NewPanicError("oh")} {
		if got := Reason(err); got != "" {
			t.Errorf("%v: reason %q, want none", err, got)
		}
	}
}
