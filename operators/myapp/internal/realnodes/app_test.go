package realnodes_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The pod and its data move to another node when theirs is drained.
func TestDrainedNode(t *testing.T) {
	t.Parallel()
	k := start(t)
	app := newMyApp(t)
	k.Apply(app)
	first := ready(k, app, &corev1.Pod{})
	fetch(t, k, first, "/write"+mount+"/text?text=kept")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: first.Spec.NodeName}}
	k.Update(node, func() { node.Spec.Unschedulable = true })
	t.Cleanup(func() { _ = k.Client.Patch(context.WithoutCancel(t.Context()), node, uncordon) })
	k.Evict(first)
	second := ready(k, app, first)
	if second.Spec.NodeName == node.Name {
		t.Errorf("the pod is on the drained node %s", node.Name)
	}
	if text := fetch(t, k, second, "/file"+mount+"/text"); text != "kept" {
		t.Errorf("the file on the volume has %q, want what the first pod wrote", text)
	}
	expectStarts(t, k, first, second)
}

var uncordon = client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`))

// A new image runs in the next pod, with the data, when the pod before it has ended.
func TestNewImage(t *testing.T) {
	t.Parallel()
	k := start(t)
	const next = "example/web:2"
	k.LoadPackage(next, "-ldflags=-X main.version=2", program)
	app := newMyApp(t)
	k.Apply(app)
	first := ready(k, app, &corev1.Pod{})
	if version := fetch(t, k, first, "/version"); version != "1" {
		t.Errorf("version %s runs, want 1", version)
	}
	k.Update(app, func() { app.Spec.Image = next })
	second := ready(k, app, first)
	if version := fetch(t, k, second, "/version"); version != "2" {
		t.Errorf("version %s runs, want 2", version)
	}
	k.Eventually(app, testkit.Ready(), testkit.Match("image", func(app *v1.MyApp) bool { // as the node names it
		return app.Status.Image == "docker.io/"+next
	}))
	expectStarts(t, k, first, second)
}

// The file system of the volume grows while the server responds, without another container.
func TestVolumeGrows(t *testing.T) {
	t.Parallel()
	k := start(t)
	app := newMyApp(t)
	k.Apply(app)
	pod := ready(k, app, &corev1.Pod{})
	size := func() int64 {
		bytes, err := strconv.ParseInt(fetch(t, k, pod, "/size"+mount), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	const mebibyte = 1 << 20
	if bytes := size(); bytes > 256*mebibyte {
		t.Errorf("the volume of 256Mi has %d bytes", bytes)
	}
	fetch(t, k, pod, "/write"+mount+"/text?text=kept")
	k.Update(app, func() { app.Spec.Storage.Size = "512Mi" })
	k.Wait("the file system has the new size", func(context.Context) error {
		if bytes := size(); bytes < 450*mebibyte { // the rest is for the file system
			return fmt.Errorf("it has %d bytes", bytes)
		}
		return nil
	})
	k.Eventually(app, testkit.Ready(), testkit.Match("capacity", func(app *v1.MyApp) bool {
		return app.Status.Volume != nil && app.Status.Volume.Capacity == "512Mi"
	}))
	if text := fetch(t, k, pod, "/file"+mount+"/text"); text != "kept" {
		t.Errorf("the file on the volume has %q", text)
	}
	expectStarts(t, k, pod)
}
