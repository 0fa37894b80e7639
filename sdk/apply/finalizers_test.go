package apply

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestWithFinalizer checks that finalizers are sent and required, and are not part of the digest.
func TestWithFinalizer(t *testing.T) {
	t.Parallel()
	intent := func(opts ...Option) *Intent {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/own"}}}
		i, err := NewIntent(o, scheme.Scheme, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	sent := func(body []byte, err error) []string {
		var o corev1.ConfigMap
		if err != nil || json.Unmarshal(body, &o) != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return o.Finalizers
	}
	with, without := intent(WithFinalizer("example.com/x"), WithFinalizer("example.com/own")), intent()
	if with.Digest() != without.Digest() {
		t.Error("a finalizer changes the digest")
	}
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		UID: "u1", ResourceVersion: "5", Finalizers: []string{"example.com/own"},
		Annotations: map[string]string{DigestAnnotation: with.Digest()},
	}}
	for i, want := range map[*Intent][]string{
		with: {"example.com/own", "example.com/x"}, without: {"example.com/own"},
	} {
		if diff := cmp.Diff(want, sent(i.forCreation())); diff != "" {
			t.Errorf("at creation (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, sent(i.forUpdate(live, FieldSet{}))); diff != "" {
			t.Errorf("in an update (-want +got):\n%s", diff)
		}
	}
	manager := NewFieldManager("me")
	manager.MarkConverged(with, live)
	if manager.Converged(with, live) || !manager.Converged(without, live) {
		t.Error("an object is converged with a finalizer missing, or not although none is")
	}
	live.Finalizers = append(live.Finalizers, "example.com/x")
	if !manager.Converged(with, live) || !manager.Converged(without, live) {
		t.Error("an object with the finalizer is not converged")
	}
}
