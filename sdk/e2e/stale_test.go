package e2e

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// withoutGet runs an operator with all permissions that it needs except to get its children.
func withoutGet(k *testkit.K) testkit.StartOption {
	return withRules(k, []rbacv1.PolicyRule{
		{APIGroups: []string{"e2e.homeostat.dev"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"*"}},
		{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"list", "watch", "create", "patch", "delete"},
		},
	})
}

// Without the permission to get a child, the operator cannot see what is in its way. The status names the permission.
func TestMissingGetAfterConflictIsReported(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the operator lacks the permission to get its children", "forbidden"))
	op := operator(oneChild)
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	start(k, op, withoutGet(k))
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"text": "of another user"}})
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "ConfigMapRejected"))
	if _, _, message := condition(s, conditions.Stalled); !strings.Contains(message, `cannot get resource "configmaps"`) {
		t.Errorf("the message does not name the permission: %s", message)
	}
}

// An API server that refuses each write as a conflict, without an object that is in the way, makes every pass stale.
func TestPassesThatStayStaleAreReported(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	passes := make(chan struct{}, 1)
	f := &faults{before: func(req *http.Request) (*http.Response, error) {
		if isApply(req, "configmaps") {
			select {
			case passes <- struct{}{}:
			default: // the last one was not looked at yet
			}
			return response(req, metav1.Status{
				Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "changed meanwhile",
			}), nil
		}
		return nil, nil //nolint:nilnil // no response: the request goes to the server
	}}
	start(k, operator(oneChild), f.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Reconciling, metav1.ConditionTrue, "Outdated"))
	// Further passes do not write the same condition again. The first one may have been under way.
	version := s.GetResourceVersion()
	for range 3 {
		select {
		case <-passes:
		case <-k.Context().Done():
			t.Fatal("the operator does not retry")
		}
	}
	if k.Get(s); s.GetResourceVersion() != version {
		t.Errorf("the status was written again: %v", s.Status.Conditions)
	}
}
