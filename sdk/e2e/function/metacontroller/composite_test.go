package metacontroller_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

func pod(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func replicaSet(name string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// field checks a field of an unstructured object.
func field(want any, path ...string) testkit.Check {
	return testkit.Match(fmt.Sprintf("%v is %v", path, want), func(u *unstructured.Unstructured) bool {
		value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
		return value == want
	})
}

// image checks the image of a pod.
func image(want string) testkit.Check {
	return testkit.Match("the image is "+want, func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == want })
}

// setImage changes the image, and a variable, which is immutable in a pod.
func setImage(o *unstructured.Unstructured, image string) {
	variable := map[string]any{"name": "IMAGE", "value": image}
	container := map[string]any{"name": "web", "image": image, "env": []any{variable}}
	set(o, []any{container}, "spec", "template", "spec", "containers")
}

// labeled checks the label of a pod.
func labeled(key, want string) testkit.Check {
	return testkit.Match(key+" is "+want, func(p *corev1.Pod) bool { return p.Labels[key] == want })
}

// podNames returns the names of the pods.
func podNames(k *testkit.K) string {
	var pods corev1.PodList
	if err := k.Client.List(k.Context(), &pods, client.InNamespace(k.Namespace)); err != nil {
		return err.Error()
	}
	var names []string
	for _, p := range pods.Items {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// deletions returns the pods that the operator has deleted since the last reset of its recorder, in order.
func deletions(op *testkit.Instance) string {
	var names []string
	for _, r := range op.Recorder().Writes() {
		if r.Verb == "delete" && r.Resource == "pods" && r.Code == http.StatusOK {
			names = append(names, r.Name)
		}
	}
	return strings.Join(names, " ")
}

func TestCatSet(t *testing.T) {
	t.Parallel()
	ops := operators(t, "catset")
	k := testkit.New(t)
	op := k.Run(ops[0])
	release := k.Kubelet.DelayReadiness("app=cats")
	cats := sample("catset")
	set(cats, int64(3), "spec", "replicas")
	k.Apply(cats)
	k.Eventually(pod("cats-0"), testkit.Exists())
	k.Eventually(claim("data-cats-0"), testkit.Exists())
	k.Eventually(cats, testkit.Reason("Ready", metav1.ConditionFalse, "Progressing"))
	idle(k, op)
	if names := podNames(k); names != "cats-0" {
		t.Errorf("the first pod is not ready, and there are pods %s", names)
	}
	release()
	k.Eventually(cats, testkit.Ready(), field(int64(3), "status", "readyReplicas"))
	idle(k, op)

	// Drift: a deleted pod, and a changed label.
	deleted := pod("cats-1")
	k.Update(deleted, func() { deleted.Finalizers = []string{"example.com/held"} }) // until the status counts two
	k.Delete(deleted)
	k.Eventually(cats, field(int64(2), "status", "readyReplicas"))
	k.Update(deleted, func() { deleted.Finalizers = nil })
	k.Eventually(cats, testkit.Ready(), field(int64(3), "status", "readyReplicas"))
	changed := pod("cats-0")
	k.Get(changed)
	k.Update(changed, func() { changed.Labels["app"] = "dogs" })
	k.Eventually(pod("cats-0"), labeled("app", "cats"))
	idle(k, op)

	// A rolling update replaces one pod after the other.
	op.Recorder().Reset()
	release = k.Kubelet.DelayReadiness("app=cats")
	k.Update(cats, func() { setImage(cats, "web:2") })
	k.Eventually(pod("cats-0"), image("web:2"))
	idle(k, op)
	if got := deletions(op); got != "cats-0" {
		t.Errorf("pod cats-0 is not ready, and these are replaced: %s", got)
	}
	release()
	for _, name := range []string{"cats-0", "cats-1", "cats-2"} {
		k.Eventually(pod(name), image("web:2"))
	}
	k.Eventually(cats, testkit.Ready(), field(int64(3), "status", "readyReplicas"))
	idle(k, op)
	if got := deletions(op); got != "cats-0 cats-1 cats-2" {
		t.Errorf("the update replaced pods %s", got)
	}

	// The highest pod goes first, and claims stay.
	op.Recorder().Reset()
	k.Update(cats, func() { set(cats, int64(1), "spec", "replicas") })
	k.Eventually(cats, testkit.Ready(), field(int64(1), "status", "replicas"))
	idle(k, op)
	if got := deletions(op); got != "cats-2 cats-1" {
		t.Errorf("the set was reduced by deleting pods %s", got)
	}
	k.Eventually(claim("data-cats-2"), testkit.Exists())
	k.Update(cats, func() { set(cats, int64(2), "spec", "replicas") })
	k.Eventually(cats, testkit.Ready(), field(int64(2), "status", "readyReplicas"))
	idle(k, op)

	// The finalize hook deletes pods in order before the object goes.
	op.Recorder().Reset()
	k.Delete(cats)
	k.Eventually(cats, testkit.Gone())
	if got := deletions(op); got != "cats-1 cats-0" {
		t.Errorf("the clean-up deleted pods %s", got)
	}
	k.Eventually(claim("data-cats-0"), testkit.Gone())
}

// selects checks the color that a Service selects.
func selects(want string) testkit.Check {
	return testkit.Match("it selects "+want, func(s *corev1.Service) bool { return s.Spec.Selector["color"] == want })
}

// size checks the replicas of a ReplicaSet.
func size(want int32) testkit.Check {
	return testkit.Match(fmt.Sprintf("it has %d replicas", want), func(r *appsv1.ReplicaSet) bool {
		return *r.Spec.Replicas == want
	})
}

func TestBlueGreen(t *testing.T) {
	t.Parallel()
	ops := operators(t, "bluegreen")
	k := testkit.New(t)
	op := k.Run(ops[0])
	web := sample("bluegreen")
	k.Apply(web)
	k.Eventually(web, testkit.Ready(), field(int64(2), "status", "readyReplicas"))
	k.Eventually(service("web"), selects("blue"))
	k.Eventually(replicaSet("web-green"), size(0))
	idle(k, op)

	// Drift: changed fields, and a deleted object.
	changed := service("web")
	k.Get(changed)
	k.Update(changed, func() { changed.Spec.Selector["color"] = "red" })
	k.Eventually(service("web"), selects("blue"))
	scaled := replicaSet("web-blue")
	k.Get(scaled)
	k.Update(scaled, func() { scaled.Spec.Replicas = new(int32(5)) })
	k.Eventually(replicaSet("web-blue"), size(2))
	k.Delete(service("web"))
	k.Eventually(service("web"), selects("blue"))
	idle(k, op)

	// The Service follows when the new pods are ready.
	release := k.Kubelet.DelayReadiness("app=web,color=green")
	k.Update(web, func() { setImage(web, "web:2") })
	k.Eventually(replicaSet("web-green"), size(2))
	idle(k, op)
	k.Eventually(service("web"), selects("blue"))
	release()
	k.Eventually(service("web"), selects("green"))
	k.Eventually(replicaSet("web-blue"), size(0))
	k.Eventually(web, testkit.Ready(), field("green", "status", "activeColor"))
	idle(k, op)

	// A related object, which does not exist at first.
	k.Update(web, func() { set(web, "texts", "spec", "configMapName") })
	idle(k, op)
	k.Eventually(service("web"), selects("green"))
	texts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "texts"}, Data: map[string]string{"title": "a"}}
	k.Apply(texts)
	k.Eventually(service("web"), selects("blue"))
	k.Eventually(web, testkit.Ready(), field("blue", "status", "activeColor"))
	k.Update(texts, func() { texts.Data["title"] = "b" })
	k.Eventually(service("web"), selects("green"))
	k.Eventually(web, testkit.Ready(), field("green", "status", "activeColor"))
	idle(k, op)
	k.Delete(web)
	k.Eventually(replicaSet("web-green"), testkit.Gone())
}

func TestIndexedJob(t *testing.T) {
	t.Parallel()
	ops := operators(t, "indexedjob")
	k := testkit.New(t)
	op := k.Run(ops[0])
	job := sample("indexedjob")
	k.Apply(job)
	k.Eventually(pod("print-1"), testkit.Match("it has its index and the label of the parent", func(p *corev1.Pod) bool {
		env := p.Spec.Containers[0].Env
		return len(env) == 1 && env[0].Value == "1" && p.Labels["controller-uid"] == string(job.GetUID())
	}))
	idle(k, op)
	if names := podNames(k); names != "print-0 print-1" {
		t.Errorf("there are pods %s; the parallelism is 2", names)
	}
	k.Eventually(job, field(int64(0), "status", "succeeded"), testkit.Condition("Complete", metav1.ConditionFalse))

	deleted := pod("print-1") // drift
	k.Get(deleted)
	k.Delete(deleted)
	k.Eventually(pod("print-1"), testkit.Match("another pod", func(p *corev1.Pod) bool { return p.UID != deleted.UID }))
	for _, name := range []string{"print-0", "print-1", "print-2"} {
		p := pod(name)
		k.Eventually(p, testkit.Match("it runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }))
		k.UpdateStatus(p, func() { p.Status.Phase = corev1.PodSucceeded })
	}
	k.Eventually(job, field(int64(3), "status", "succeeded"), testkit.Condition("Complete", metav1.ConditionTrue))
	k.Eventually(job, testkit.Ready())
	idle(k, op)
	k.Delete(job)
	k.Eventually(pod("print-0"), testkit.Gone())
}

func TestCatSetFaults(t *testing.T) {
	cats := func(replicas int64, image string) *unstructured.Unstructured {
		o := sample("catset")
		set(o, replicas, "spec", "replicas")
		setImage(o, image)
		return o
	}
	scenario := chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(cats(1, "web:1")) }},
		{Name: "grow", Do: func(k *testkit.K) { k.Apply(cats(2, "web:1")) }},
		{Name: "change the image", Do: func(k *testkit.K) { k.Apply(cats(2, "web:2")) }},
		{Name: "delete", Do: func(k *testkit.K) { k.Delete(cats(2, "web:2")) }},
	}
	chaos.Sweep(t, operators(t, "catset")[0], scenario, chaos.All)
}

func TestBlueGreenFaults(t *testing.T) {
	web := func(replicas int64, image string) *unstructured.Unstructured {
		o := sample("bluegreen")
		set(o, replicas, "spec", "replicas")
		setImage(o, image)
		return o
	}
	// The API server refuses a second port without a name, which an apply adds if another client has changed the number.
	ports := chaos.ExternallyManaged("services/web.spec.ports")
	t.Run("scale", func(t *testing.T) {
		chaos.Sweep(t, operators(t, "bluegreen")[0], chaos.Scenario{
			{Name: "create", Do: func(k *testkit.K) { k.Apply(web(1, "web:1")) }},
			{Name: "scale", Do: func(k *testkit.K) { k.Apply(web(2, "web:1")) }},
			{Name: "delete", Do: func(k *testkit.K) { k.Delete(web(2, "web:1")) }},
		}, chaos.All, ports)
	})
	// The color tells how often the template was changed: an operator that did not see the change, or sees a new object, has
	// another one.
	t.Run("switch", func(t *testing.T) {
		faults := chaos.Faults{
			chaos.Crash, chaos.Error, chaos.LostResponse, chaos.Conflict, chaos.Lag, chaos.WatchClosed, chaos.WatchBroken,
			chaos.WatchExpired, chaos.Drift, chaos.Deleted, chaos.Failover, chaos.NamespaceDeleted, chaos.Foreign, chaos.DriftAll,
			chaos.PodFailed, chaos.Outage, chaos.DriftMetadata, chaos.FailoverPaused,
		}
		chaos.Sweep(t, operators(t, "bluegreen")[0], chaos.Scenario{
			{Name: "create", Do: func(k *testkit.K) { k.Apply(web(1, "web:1")) }},
			{Name: "change the image", Do: func(k *testkit.K) { k.Apply(web(1, "web:2")) }},
			{Name: "delete", Do: func(k *testkit.K) { k.Delete(web(1, "web:2")) }},
		}, faults, ports, chaos.WithoutOracles("a fresh operator has not seen the change, and starts with blue", "fresh"))
	})
}
