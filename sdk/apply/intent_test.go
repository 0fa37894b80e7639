package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestUnmanagedFieldIsSentOnce checks that creations and updates send the same fields, except for unmanaged ones.
func TestUnmanagedFieldIsSentOnce(t *testing.T) {
	t.Parallel()
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"tier": "front"}}}
	web.Spec.Replicas = new(int32(2))
	web.Spec.MinReadySeconds = 5
	i := intentOf(t, web, Unmanaged("spec.replicas"), Unmanaged("metadata.labels.tier"), WithLabel("by", "us"))
	live := web.DeepCopy()
	live.UID = "u"
	live.ResourceVersion = "7"
	live.Spec.Replicas = new(int32(9))
	for name, c := range map[string]struct {
		body func() ([]byte, error)
		want map[string]any
	}{
		"creation": {i.forCreation, map[string]any{
			"metadata": map[string]any{"resourceVersion": "1", "labels": map[string]any{"by": "us", "tier": "front"}},
			"spec":     map[string]any{"replicas": int64(2), "minReadySeconds": int64(5)},
		}},
		"update": {func() ([]byte, error) { return i.forUpdate(live, FieldSet{}) }, map[string]any{
			"metadata": map[string]any{"uid": "u", "labels": map[string]any{"by": "us"}},
			"spec":     map[string]any{"minReadySeconds": int64(5)},
		}},
		"update of an unmanaged field that is still ours": {func() ([]byte, error) {
			return i.forUpdate(live, FieldSet{raw: `{"f:spec":{"f:replicas":{}}}`})
		}, map[string]any{
			"metadata": map[string]any{"uid": "u", "resourceVersion": "7", "labels": map[string]any{"by": "us"}},
			"spec":     map[string]any{"replicas": int64(9), "minReadySeconds": int64(5)},
		}},
	} {
		raw, err := c.body()
		if err != nil {
			t.Fatal(name, err)
		}
		got, metadata := decode(raw), c.want["metadata"].(map[string]any)
		c.want["apiVersion"], c.want["kind"], metadata["name"] = "apps/v1", "Deployment", "web"
		metadata["annotations"] = map[string]any{DigestAnnotation: i.Digest()}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestIntentIsIndependent checks that an intent does not change with the object that it was made of.
func TestIntentIsIndependent(t *testing.T) {
	t.Parallel()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Labels: map[string]string{"k": "v"}, UID: "of the server", ResourceVersion: "3", Generation: 2,
	}}
	i := intentOf(t, account)
	account.Labels["k"] = "changed"
	account.AutomountServiceAccountToken = new(false)
	want := map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{
			"name": "a", "labels": map[string]any{"k": "v"},
			"annotations": map[string]any{DigestAnnotation: i.Digest()},
		},
	}
	if diff := cmp.Diff(want, i.Fields()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	before := account.DeepCopy()
	intentOf(t, account, WithLabel("by", "us"), ControlledBy(account))
	if diff := cmp.Diff(before, account); diff != "" {
		t.Errorf("the caller's object was changed (-before +after):\n%s", diff)
	}
}

func intentOf(t *testing.T, o client.Object, opts ...Option) *Intent {
	t.Helper()
	i, err := NewIntent(o, scheme.Scheme, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return i
}
