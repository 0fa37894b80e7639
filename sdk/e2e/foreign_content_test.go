package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// withoutHostAccess removes the network of the host and further containers.
func withoutHostAccess(live *appsv1.Deployment) (removed []string) {
	pod := &live.Spec.Template.Spec
	if pod.HostNetwork {
		pod.HostNetwork = false
		removed = append(removed, "spec.template.spec.hostNetwork")
	}
	all := len(pod.Containers)
	pod.Containers = slices.DeleteFunc(pod.Containers, func(c corev1.Container) bool { return c.Name != "web" })
	if len(pod.Containers) < all {
		removed = append(removed, "spec.template.spec.containers")
	}
	return removed
}

// Content of other managers that the operator does not tolerate is removed with one request, other content stays, and the
// removal leaves no trace in the field managers.
func TestForeignContentIsRemoved(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		always := sdk.ReadyWhen(func(*appsv1.Deployment) (bool, string) { return true, "" })
		sdk.Apply(p, deploymentWithAllFields(p.Object.Name), always, sdk.RemoveForeign(withoutHostAccess))
		return nil
	}))
	k.Apply(newSite("a"))
	k.Eventually(newSite("a"), testkit.Ready())
	waitIdle(k, running, quietPeriod)
	running.Recorder().Reset()
	d := named(&appsv1.Deployment{}, "a")
	err := patch(k, d, types.StrategicMergePatchType, `{"spec": {"minReadySeconds": 5, "template": {"spec": {
		"hostNetwork": true, "containers": [{"name": "web", "workingDir": "/x"}, {"name": "evil", "image": "evil"}]}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	k.Eventually(d, testkit.Match("only ours", func(d *appsv1.Deployment) bool {
		return !d.Spec.Template.Spec.HostNetwork && len(d.Spec.Template.Spec.Containers) == 1
	}))
	waitIdle(k, running, quietPeriod)
	if diff := cmp.Diff([]string{"patch deployments.apps a -> 200"}, requestsByName(running)["a"]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	k.Get(d)
	if c := d.Spec.Template.Spec.Containers[0]; c.WorkingDir != "/x" || d.Spec.MinReadySeconds != 5 {
		t.Errorf("other fields were removed too: workingDir %q, minReadySeconds %d", c.WorkingDir, d.Spec.MinReadySeconds)
	}
	for _, entry := range d.ManagedFields {
		if entry.Manager == operatorName && entry.Operation == "Update" {
			t.Errorf("the removal made the operator a second manager: %s", entry.FieldsV1)
		}
	}
}

// Content that admission adds again is no reason to try for ever.
func TestForeignContentOfAdmissionIsKept(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	rewrite(k)
	const prefix = "mirror/"
	running := start(k, operator(func(_ context.Context, p *pass) error {
		child := named(&corev1.ConfigMap{}, p.Object.Name)
		child.Data = map[string]string{"key": "value"}
		sdk.Apply(p, child, sdk.RemoveForeign(func(live *corev1.ConfigMap) []string {
			text, found := strings.CutPrefix(live.Data["text"], prefix)
			if !found {
				return nil
			}
			live.Data["text"] = text
			return []string{"data.text"}
		}))
		return nil
	}))
	k.Apply(newSite("a"))
	k.Eventually(newSite("a"), testkit.Ready())
	waitIdle(k, running, quietPeriod)
	running.Recorder().Reset()
	child := named(&corev1.ConfigMap{}, "a")
	mustPatch(t, k, child, types.MergePatchType, `{"data": {"text": "x"}}`)
	k.Wait("the operator tries to remove it", func(context.Context) error {
		if len(running.Requests()) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	waitIdle(k, running, quietPeriod)
	// The first removal changes the owner of the field, and the second one nothing.
	want := []string{"patch configmaps a -> 200", "patch configmaps a -> 200"}
	if diff := cmp.Diff(want, requestsByName(running)["a"]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	k.Eventually(newSite("a"), testkit.Ready())
}
