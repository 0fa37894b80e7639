package sandbox

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// WaitReady reports a new reason every 5 s, and the same one every 30 s.
func TestWaitReadyReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("example.com/v1")
		u.SetKind("Widget")
		u.SetName("a")
		began := time.Now()
		var reported []string
		s := &Sandbox{opts: Options{
			Projects: []*Project{{Samples: []*unstructured.Unstructured{u}}},
			Report: func(line string) {
				reported = append(reported, fmt.Sprintf("%.0f s: %s", time.Since(began).Seconds(), line))
			},
		}}
		s.client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
				status, reason := "False", "no pods"
				switch after := time.Since(began); {
				case after >= time.Minute:
					status = "True"
				case after >= 37*time.Second:
					reason = "1 of 2 pods"
				}
				u, _ := o.(*unstructured.Unstructured)
				condition := map[string]any{"type": "Ready", "status": status, "reason": "Waiting", "message": reason}
				return unstructured.SetNestedSlice(u.Object, []any{condition}, "status", "conditions")
			},
		})
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		const prefix = "waiting for Widget a: Ready is False "
		want := []string{
			"5 s: " + prefix + "(Waiting: no pods)", "35 s: " + prefix + "(Waiting: no pods)",
			"40 s: " + prefix + "(Waiting: 1 of 2 pods)",
		}
		if !slices.Equal(reported, want) {
			t.Errorf("it reported %q, want %q", reported, want)
		}
	})
}
