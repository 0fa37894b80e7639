package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A drift is a change of a child by another actor.
type drift struct {
	reason   string
	change   func(k *testkit.K, d *appsv1.Deployment) error
	repaired bool // whether the operator must send one request, or none
}

// mergePatch, strategicPatch and jsonPatch return drifts by one patch of each type.
func mergePatch(body string) func(*testkit.K, *appsv1.Deployment) error {
	return func(k *testkit.K, d *appsv1.Deployment) error { return patch(k, d, types.MergePatchType, body) }
}

func strategicPatch(container string) func(*testkit.K, *appsv1.Deployment) error {
	body := `{"spec":{"template":{"spec":{"containers":[{"name":"web",` + container + `}]}}}}`
	return func(k *testkit.K, d *appsv1.Deployment) error {
		return patch(k, d, types.StrategicMergePatchType, body)
	}
}

func jsonPatch(body string) func(*testkit.K, *appsv1.Deployment) error {
	return func(k *testkit.K, d *appsv1.Deployment) error { return patch(k, d, types.JSONPatchType, body) }
}

func applyPatch(body string) func(*testkit.K, *appsv1.Deployment) error {
	body = `{"apiVersion":"apps/v1","kind":"Deployment",` + body + `}`
	return func(k *testkit.K, d *appsv1.Deployment) error {
		return patch(k, d, types.ApplyPatchType, body, client.ForceOwnership)
	}
}

func updateObject(change func(*appsv1.Deployment)) func(*testkit.K, *appsv1.Deployment) error {
	return func(k *testkit.K, d *appsv1.Deployment) error {
		k.Get(d)
		change(d)
		return k.Client.Update(k.Context(), d, client.FieldOwner("another-manager"))
	}
}

func scale(replicas int32) func(*testkit.K, *appsv1.Deployment) error {
	return func(k *testkit.K, d *appsv1.Deployment) error {
		d.Namespace = k.Namespace
		body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		return k.Client.SubResource("scale").Update(k.Context(), d, client.WithSubResourceBody(body),
			client.FieldOwner("autoscaler"))
	}
}

// drifts are the cases of the experiment in ADR 0040.
var drifts = map[string]drift{
	"nothing": {
		"other cases are compared with this one", func(*testkit.K, *appsv1.Deployment) error { return nil }, false,
	},
	"status": {
		"status is not intent", func(k *testkit.K, d *appsv1.Deployment) error {
			k.UpdateStatus(d, func() { d.Status.Replicas = 1 })
			return nil
		}, false,
	},
	"foreign-label":      {"labels of other managers are not ours", mergePatch(`{"metadata":{"labels":{"x":"y"}}}`), false},
	"foreign-annotation": {"annotations too", mergePatch(`{"metadata":{"annotations":{"x":"y"}}}`), false},
	"foreign-field":      {"a field we do not set", mergePatch(`{"spec":{"minReadySeconds":5}}`), false},
	"foreign-env":        {"an item in a list of ours", strategicPatch(`"env":[{"name":"X","value":"y"}]`), false},
	"foreign-sidecar": {
		"an injected container", mergePatch(`{"spec":{"template":{"spec":{"initContainers":[{"name":"s","image":"s"}]}}}}`), false,
	},
	"foreign-finalizer": {
		"finalizers are a set", jsonPatch(`[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/x"}]`), false,
	},
	"label-edited":      {"own label", mergePatch(`{"metadata":{"labels":{"color":"red"}}}`), true},
	"label-removed":     {"own label", mergePatch(`{"metadata":{"labels":{"color":null}}}`), true},
	"annotation-edited": {"own annotation", mergePatch(`{"metadata":{"annotations":{"note":"other"}}}`), true},
	"digest-edited": {
		"the evidence itself", mergePatch(`{"metadata":{"annotations":{"` + apply.DigestAnnotation + `":"x"}}}`), true,
	},
	"image-edited": {"a leaf in a list with keys", strategicPatch(`"image":"other"`), true},
	"env-edited":   {"a leaf below two lists", strategicPatch(`"env":[{"name":"E","value":"other"}]`), true},
	"env-removed":  {"an item", jsonPatch(`[{"op":"remove","path":"/spec/template/spec/containers/0/env"}]`), true},
	"args-appended": {
		"an atomic list", jsonPatch(`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"x"}]`), true,
	},
	"finalizer-gone":  {"an item of a set", jsonPatch(`[{"op":"remove","path":"/metadata/finalizers"}]`), true},
	"quantity-edited": {"another amount", strategicPatch(`"resources":{"requests":{"cpu":"600m"}}`), true},
	"quantity-rewritten": {
		"another notation of the stored value",
		strategicPatch(`"resources":{"requests":{"cpu":"0.5","memory":"1048576Ki"}}`), false,
	},
	"quantity-reformatted": {
		"the same amount, stored in another form", strategicPatch(`"resources":{"requests":{"memory":"1073741824"}}`), true,
	},
	"scaled":        {"through a subresource", scale(3), true},
	"scaled-equal":  {"through a subresource, to the same value", scale(1), false},
	"put-unchanged": {"a whole object written back", updateObject(func(*appsv1.Deployment) {}), false},
	"put-edited": {
		"a whole object written back with a change",
		updateObject(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "other" }), true,
	},
	"fields-wiped":  {"the ownership of all fields is lost", mergePatch(`{"metadata":{"managedFields":[{}]}}`), true},
	"applied-equal": {"two managers may apply the same value", applyPatch(`"metadata":{"labels":{"color":"blue"}}`), false},
	"applied-other": {"another manager forces another value", applyPatch(`"metadata":{"labels":{"color":"red"}}`), true},
	"edited-and-back": {
		"the value is right again but no longer ours", func(k *testkit.K, d *appsv1.Deployment) error {
			if err := mergePatch(`{"metadata":{"labels":{"color":"red"}}}`)(k, d); err != nil {
				return err
			}
			return mergePatch(`{"metadata":{"labels":{"color":"blue"}}}`)(k, d)
		}, true,
	},
}

// deploymentWithAllFields returns a Deployment with each type of field.
func deploymentWithAllFields(name string) *appsv1.Deployment {
	s := newSite(name)
	d := deployment(s)
	d.Labels = map[string]string{"color": "blue"}
	d.Annotations = map[string]string{"note": "ours"}
	d.Finalizers = []string{"e2e.homeostat.dev/kept"}
	d.Spec.Replicas = new(int32(1))
	c := &d.Spec.Template.Spec.Containers[0]
	c.Args = []string{"one"}
	c.Env = []corev1.EnvVar{{Name: "E", Value: "v"}}
	c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("0.5"), "memory": resource.MustParse("1024Mi")}
	return d
}

// ownFields returns the fields that deploymentWithAllFields sets.
func ownFields(d *appsv1.Deployment) map[string]any {
	c := d.Spec.Template.Spec.Containers[0]
	env := slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name != "E" })
	return map[string]any{
		"label": d.Labels["color"], "note": d.Annotations["note"], "image": c.Image, "args": c.Args, "env": env,
		"cpu": c.Resources.Requests.Cpu().String(), "memory": c.Resources.Requests.Memory().String(),
		"replicas": *d.Spec.Replicas, "finalizer": slices.Contains(d.Finalizers, "e2e.homeostat.dev/kept"),
	}
}

func TestDriftIsRepairedWithOneRequest(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"running": false, "down": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDrift(t, down)
		})
	}
}

func testDrift(t *testing.T, down bool) {
	t.Helper()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		always := sdk.ReadyWhen(func(*appsv1.Deployment) (bool, string) { return true, "" })
		sdk.Apply(p, deploymentWithAllFields(p.Object.Name), always)
		return nil
	})
	running := start(k, op)
	t.Cleanup(func() { running.Stop() })
	for _, name := range slices.Sorted(maps.Keys(drifts)) {
		k.Apply(newSite(name))
	}
	for name := range drifts {
		k.Eventually(newSite(name), testkit.Ready())
	}
	waitIdle(k, running, quietPeriod)
	running.Recorder().Reset()
	if down {
		running.Stop()
	}
	for name, drift := range drifts {
		if err := drift.change(k, named(&appsv1.Deployment{}, name)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if down {
		running = start(k, op)
	}
	k.Wait("each drift that must be seen was answered", func(context.Context) error {
		got := requestsByName(running)
		for name, drift := range drifts {
			if drift.repaired && len(got[name]) == 0 {
				return fmt.Errorf("%s (%s) was not observed", name, drift.reason)
			}
		}
		return nil
	})
	waitIdle(k, running, quietPeriod)
	checkDrift(t, k, requestsByName(running))
}

func checkDrift(t *testing.T, k *testkit.K, requests map[string][]string) {
	t.Helper()
	want := ownFields(deploymentWithAllFields("any"))
	for name, drift := range drifts {
		var wanted []string
		if drift.repaired {
			wanted = []string{"apply deployments.apps " + name + " -> 200"}
		}
		if diff := cmp.Diff(wanted, requests[name]); diff != "" {
			t.Errorf("%s (%s): requests (-want +got):\n%s", name, drift.reason, diff)
		}
		d := named(&appsv1.Deployment{}, name)
		k.Get(d)
		if diff := cmp.Diff(want, ownFields(d)); diff != "" {
			t.Errorf("%s (%s): owned fields (-want +got):\n%s", name, drift.reason, diff)
		}
	}
}

func requestsByName(op *testkit.Instance) map[string][]string {
	all := map[string][]string{}
	for _, r := range op.Requests() {
		if r.Resource != "" {
			text := strings.Replace(r.String(), r.Namespace+"/", "", 1)
			all[r.Name] = append(all[r.Name], text)
		}
	}
	return all
}

// Children are watched by a label. Its loss hides the child from the informer, so that the repair takes a failed creation
// and a read.
func TestLostWatchLabelIsRepaired(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(oneChild))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	waitIdle(k, running, quietPeriod)
	running.Recorder().Reset()
	c := named(&corev1.ConfigMap{}, s.Name)
	mustPatch(t, k, c, types.MergePatchType, `{"metadata":{"labels":{"`+sdk.ManagedByLabel+`":null}}}`)
	k.Eventually(c, testkit.Match("labeled again", func(c *corev1.ConfigMap) bool {
		return c.Labels[sdk.ManagedByLabel] == operatorName && metav1.IsControlledBy(c, s)
	}))
	want := []string{
		"apply configmaps a -> 409", // the child exists, and is not overwritten
		"get configmaps a -> 200",
		"apply configmaps a -> 200",
	}
	if diff := cmp.Diff(want, sent(k, running)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
