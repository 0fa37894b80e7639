package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

func unstructuredInt(u *unstructured.Unstructured, fields ...string) (int64, bool, error) {
	return unstructured.NestedInt64(u.Object, fields...)
}

func TestStartRecordsRequests(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := k.Start(setupWidgets)
	w := k.Apply(newWidget("w"))
	k.Eventually(w, testkit.Ready())
	k.Eventually(newConfigMap("w"), testkit.Exists())
	if err := op.Recorder().WaitIdle(k.Context(), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	want := []recorder.Request{
		{Verb: "create", Resource: "configmaps", Namespace: k.Namespace, Name: "w", Code: 201},
		{
			Verb: "patch", Group: widgetKind.Group, Resource: "widgets", Subresource: "status",
			Namespace: k.Namespace, Name: "w", Code: 200,
		},
	}
	if diff := cmp.Diff(want, op.Recorder().Writes()); diff != "" {
		t.Errorf("the operator's writes (-want +got):\n%s", diff)
	}
	if len(op.Recorder().Watches()) == 0 {
		t.Error("the operator's watches are missing")
	}
	// Now the operator is idle.
	op.Recorder().Reset()
	k.Consistently(w, time.Second, testkit.Ready())
	if got := op.Requests(); len(got) > 0 {
		t.Errorf("requests of an idle operator: %v", got)
	}
}

// Garbage collection works as in a cluster.
func TestChildrenAreGarbageCollected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Start(setupWidgets)
	w, child := k.Apply(newWidget("w")), newConfigMap("w")
	k.Eventually(w, testkit.Ready())
	k.Get(child)
	k.Delete(w)
	k.Eventually(w, testkit.Gone())
	k.Eventually(child, testkit.Gone())
}

func TestOperatorWatchesOwnNamespace(t *testing.T) {
	t.Parallel()
	a, b := testkit.New(t), testkit.New(t)
	a.Start(setupWidgets)
	a.Start(setupWidgets) // two replicas of one operator
	ours, theirs := a.Apply(newWidget("w")), b.Apply(newWidget("w"))
	a.Eventually(ours, testkit.Ready())
	untouched := testkit.Match("has no status", func(u *unstructured.Unstructured) bool {
		return u.Object["status"] == nil
	})
	b.Consistently(theirs, 300*time.Millisecond, untouched)
}

func TestClusterWide(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	k.Start(setupWidgets, testkit.ClusterWide())
	elsewhere := newWidget("w")
	elsewhere.SetNamespace("default")
	k.Apply(elsewhere)
	k.Eventually(elsewhere, testkit.Ready())
}

// setupStubborn is an operator that keeps writing after its context has ended, unlike a killed process.
func setupStubborn(namespace string, stopped <-chan struct{}) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return mgr.Add(manager.RunnableFunc(func(context.Context) error {
			for i := 0; ; i++ {
				select {
				case <-stopped:
					return nil
				case <-time.After(time.Millisecond):
				}
				cm := newConfigMap(fmt.Sprintf("cm-%d", i))
				cm.Namespace = namespace
				_ = c.Create(context.Background(), cm)
			}
		}))
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	count := func() int {
		var list corev1.ConfigMapList
		if err := k.Client.List(k.Context(), &list, client.InNamespace(k.Namespace)); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	stopped := make(chan struct{})
	op := k.Start(setupStubborn(k.Namespace, stopped))
	k.Eventually(newConfigMap("cm-10"), testkit.Exists())
	time.AfterFunc(500*time.Millisecond, func() { close(stopped) })
	op.Kill() // it waits for the process to end, which takes those 500 ms
	before := count()
	requests := len(op.Recorder().Writes())
	<-time.After(50 * time.Millisecond) // nothing may happen in this time
	if after := count(); after != before {
		t.Errorf("the killed operator went on writing: %d ConfigMaps, then %d", before, after)
	}
	if before != requests {
		t.Errorf("%d ConfigMaps were written by %d requests", before, requests)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := k.Start(setupWidgets)
	k.Eventually(k.Apply(newWidget("first")), testkit.Ready())
	op.Kill()
	second := k.Apply(newWidget("second"))
	again := k.Start(setupWidgets)
	k.Eventually(second, testkit.Ready())
	for _, r := range again.Recorder().Writes() {
		if r.Name == "first" {
			t.Errorf("the restart repeats finished work: %v", r)
		}
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		setup  testkit.SetupFunc
		want   string
	}{
		"Setup": {
			reason: "an operator that cannot be set up is not started",
			setup:  func(manager.Manager) error { return errors.New("this is why") },
			want:   "setting up its controllers: this is why",
		},
		"Runnable": {
			reason: "an operator that ends by itself does not become ready",
			setup: func(mgr manager.Manager) error {
				return mgr.Add(manager.RunnableFunc(func(context.Context) error { return errors.New("this is why") }))
			},
			want: "this is why",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contains(t, failing(t, func(fake testing.TB) {
				k := testkit.New(fake)
				op := k.Start(tt.setup)
				<-op.Done() // it may end right after it was ready
				op.Stop()
			}), tt.want)
		})
	}
}

func TestForbiddenRequestsAreRecorded(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the operator asks for what it may not have", testkit.Forbidden))
	op := k.Start(func(mgr manager.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			var secrets corev1.SecretList
			_ = mgr.GetAPIReader().List(ctx, &secrets, client.InNamespace(k.Namespace))
			<-ctx.Done()
			return nil
		}))
	})
	want := recorder.Request{Verb: "list", Resource: "secrets", Namespace: k.Namespace, Code: 403}
	k.Wait("the operator is denied", func(context.Context) error {
		if slices.Contains(op.Requests(), want) {
			return nil
		}
		return fmt.Errorf("no %v in %v", want, op.Requests())
	})
}
