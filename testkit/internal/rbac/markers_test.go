package rbac_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
)

func TestMarked(t *testing.T) {
	t.Parallel()
	got := rbac.Marked([]byte(`package a

// The rights of the operator.
//
// +kubebuilder:rbac:roleName=a,groups="",resources=pods;services,verbs=get;list
// +kubebuilder:rbac:roleName=a,groups=apps,resources=deployments/status,verbs=patch
// +kubebuilder:rbac:urls=/metrics,verbs=get
// kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=patch
`))
	want := []string{
		"get /metrics", "get pods", "get services", "list pods", "list services", "patch deployments.apps/status",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights, -want +got:\n%s", diff)
	}
}
