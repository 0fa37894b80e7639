// Package team contains an operator of a cluster-scoped kind that owns a Namespace and its contents, and that registers each
// object exactly once in an external HTTP service. It is an example of a write-ahead status: the intent is stored before the
// request, and the key of the request makes its repetition harmless.
package team

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
)

// retryAfter is the time between two requests to a registry that fails.
const retryAfter = 200 * time.Millisecond

// Registry is the external service.
type Registry interface {
	// Register enters a team and returns its ID. A second call with the same key returns the same ID.
	Register(ctx context.Context, key, name string) (id string, err error)
	// Deregister removes the entry with that key. It is no error if there is none.
	Deregister(ctx context.Context, key string) error
}

// New returns the operator for the teams that the function selects; nil means all.
func New(registry Registry, selects func(types.NamespacedName) bool) *sdk.Operator[*Team] {
	return &sdk.Operator[*Team]{
		Name:        "team",
		AddToScheme: AddToScheme,
		Owns:        []client.Object{&corev1.Namespace{}, &corev1.ResourceQuota{}, &rbacv1.RoleBinding{}},
		Selects:     selects,
		Reconcile: func(ctx context.Context, p *sdk.Pass[*Team]) error {
			ns := sdk.Apply(p, namespace(p.Object))
			// Nothing is written into a namespace that does not belong to the team.
			sdk.Apply(p, quota(p.Object), sdk.AfterCreated(ns))
			sdk.Apply(p, binding(p.Object), sdk.AfterCreated(ns))
			if ns.Exists() {
				register(ctx, p, registry)
			} else {
				p.SetNotReady("NamespaceMissing", "namespace %s does not exist yet", p.Object.Name)
			}
			return nil
		},
		Finalize: func(ctx context.Context, p *sdk.Pass[*Team]) error {
			if p.Object.Status.Key == "" {
				return nil
			}
			return registry.Deregister(ctx, p.Object.Status.Key)
		},
	}
}

// register registers the team. The key is stored by one pass and used by the next one, so that Finalize knows of each
// request that was sent, and a dry run sends none. A failure leaves the children alone: the request is repeated with the
// same key.
func register(ctx context.Context, p *sdk.Pass[*Team], registry Registry) {
	status := &p.Object.Status
	switch {
	case status.ID != "":
		return
	case status.Key == "":
		status.Key = string(p.Object.UID)
		p.SetNotReady("Registering", "the registration begins")
		return
	}
	id, err := registry.Register(ctx, status.Key, p.Object.Name)
	if err != nil {
		p.SetNotReady("RegistryFailing", "registering the team: %v", err)
		p.RequeueAfter(retryAfter)
		return
	}
	status.ID = id
}

func namespace(t *Team) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Name}}
}

func quota(t *Team) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Name, Name: "team"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(t.Spec.Pods, resource.DecimalSI)},
		},
	}
}

func binding(t *Team) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Name, Name: "team"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: t.Spec.Group}},
	}
}
