package sandbox

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// WaitReady reads only the sample that is not ready. It returns when it has read all samples in a row and each was ready: a
// sample may lose its readiness while another one becomes ready.
func TestWaitReady(t *testing.T) {
	t.Parallel()
	p := &Project{}
	for _, name := range []string{"a", "b", "c"} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("example.com/v1")
		u.SetKind("Widget")
		u.SetName(name)
		p.Samples = append(p.Samples, u)
	}
	var read []string
	ready := map[string][]bool{"a": {true, false, true, true}, "b": {false, false, true, true}, "c": {true, true}}
	s := &Sandbox{opts: Options{Projects: []*Project{p}}}
	s.client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			read = append(read, key.Name)
			is := "False"
			if ready[key.Name][0] {
				is = "True"
			}
			ready[key.Name] = ready[key.Name][1:]
			u, _ := o.(*unstructured.Unstructured)
			return unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Ready", "status": is}}, "status", "conditions")
		},
	})
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "b", "b", "c", "a", "a", "b", "c"}; !slices.Equal(read, want) {
		t.Errorf("it read %q, want %q", read, want)
	}
}
