package metacontroller_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

const serviceFinalizer = "homeostat.dev/service-per-pod-statefulsets"

func statefulSet(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// selectsPod checks the pod that a Service selects.
func selectsPod(want string) testkit.Check {
	return testkit.Match("it selects "+want, func(s *corev1.Service) bool {
		return maps.Equal(s.Spec.Selector, map[string]string{"pod-name": want})
	})
}

// annotated checks the annotation of a pod.
func annotated(want string) testkit.Check {
	return testkit.Match("its annotation is "+want, func(p *corev1.Pod) bool {
		return p.Annotations["example.com/labeled"] == want
	})
}

func finalizers(want int) testkit.Check {
	return testkit.Match("it has its finalizers", func(s *appsv1.StatefulSet) bool {
		return len(s.Finalizers) == want && (want == 0 || s.Finalizers[0] == serviceFinalizer)
	})
}

func TestServicePerPod(t *testing.T) {
	t.Parallel()
	ops := operators(t, "service-per-pod")
	k := testkit.New(t)
	services, names := k.Run(ops[0]), k.Run(ops[1])
	nginx := sample("service-per-pod")
	k.Apply(nginx)
	k.Eventually(service("nginx-0"), selectsPod("nginx-0"))
	k.Eventually(service("nginx-1"), selectsPod("nginx-1"))
	k.Eventually(pod("nginx-1"), labeled("pod-name", "nginx-1"))
	k.Eventually(statefulSet("nginx"), finalizers(1), testkit.Match("its status is that of its controller",
		func(s *appsv1.StatefulSet) bool { return s.Status.ReadyReplicas == 2 && len(s.Status.Conditions) == 0 }))
	idle(k, services)
	idle(k, names)
	var plan strings.Builder
	err := ops[0].PrintPlans(t.Context(), k.Config, []string{k.Namespace}, &plan)
	if err != nil || !strings.Contains(plan.String(), "/nginx\n  nothing would be done\n") {
		t.Errorf("the plan is %q, %v", plan.String(), err)
	}

	// Drift: a changed Service, a deleted one, a removed label, and a changed annotation.
	changed := service("nginx-0")
	k.Get(changed)
	k.Update(changed, func() { changed.Spec.Selector["pod-name"] = "nginx-1" })
	k.Eventually(service("nginx-0"), selectsPod("nginx-0"))
	k.Delete(service("nginx-1"))
	k.Eventually(service("nginx-1"), selectsPod("nginx-1"))
	for _, change := range []func(*corev1.Pod){
		func(p *corev1.Pod) { delete(p.Labels, "pod-name") },
		func(p *corev1.Pod) { p.Annotations["example.com/labeled"] = "no" },
	} {
		p := pod("nginx-0")
		k.Get(p)
		k.Update(p, func() { change(p) })
		k.Eventually(pod("nginx-0"), labeled("pod-name", "nginx-0"), labeled("app", "nginx"), annotated("pod-name"))
	}
	idle(k, services)
	idle(k, names)

	// Without the annotation a pod loses the label and keeps the others.
	p := pod("nginx-0")
	k.Get(p)
	k.Update(p, func() { delete(p.Annotations, "pod-name-label") })
	k.Eventually(pod("nginx-0"), labeled("pod-name", ""), labeled("app", "nginx"), annotated(""))
	k.Update(p, func() { p.Annotations = map[string]string{"pod-name-label": "pod-name"} })
	k.Eventually(pod("nginx-0"), labeled("pod-name", "nginx-0"))

	set := statefulSet("nginx")
	k.Get(set)
	k.Update(set, func() { set.Spec.Replicas = new(int32(1)) })
	k.Eventually(service("nginx-1"), testkit.Gone())

	// Without the annotation a StatefulSet loses the Services, and then the finalizer.
	idle(k, services)
	services.Recorder().Reset()
	k.Update(set, func() { delete(set.Annotations, "service-per-pod-ports") })
	k.Eventually(service("nginx-0"), testkit.Gone())
	k.Eventually(statefulSet("nginx"), finalizers(0))
	idle(k, services)
	writes := services.Recorder().Writes()
	if len(writes) != 2 || writes[0].Resource != "services" || writes[1].Resource != "statefulsets" {
		t.Errorf("the Service is deleted before the finalizer is removed, and these are the requests: %v", writes)
	}
	k.Eventually(pod("nginx-0"), testkit.Exists())

	k.Update(set, func() { set.Annotations["service-per-pod-ports"] = "80:8080" })
	k.Eventually(service("nginx-0"), selectsPod("nginx-0"))
	k.Delete(set)
	k.Eventually(set, testkit.Gone())
	k.Eventually(service("nginx-0"), testkit.Gone())
}

// A StatefulSet that is not selected is never written.
func TestNotDecorated(t *testing.T) {
	t.Parallel()
	hooks := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the hook %s is called for an object that is not selected", r.URL.Path)
	}))
	t.Cleanup(hooks.Close)
	decorator := operators(t, "service-per-pod")[0]
	decorator.Base = hooks.URL
	k := testkit.New(t)
	op := k.Run(decorator)
	nginx := sample("service-per-pod")
	nginx.SetAnnotations(nil)
	k.Apply(nginx)
	k.Eventually(pod("nginx-1"), testkit.Exists())
	idle(k, op)
	if writes := op.Recorder().Writes(); len(writes) > 0 {
		t.Errorf("the operator makes requests for an object that is not selected: %v", writes)
	}
}

func TestServicePerPodFaults(t *testing.T) {
	scenario := chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(sample("service-per-pod")) }},
		{Name: "remove the annotation", Do: func(k *testkit.K) {
			nginx := sample("service-per-pod")
			nginx.SetAnnotations(nil)
			k.Apply(nginx)
		}},
		{Name: "restore the annotation", Do: func(k *testkit.K) { k.Apply(sample("service-per-pod")) }},
		{Name: "delete", Do: func(k *testkit.K) { k.Delete(sample("service-per-pod")) }},
	}
	// See TestBlueGreenFaults.
	ports := chaos.ExternallyManaged("services/nginx-0.spec.ports", "services/nginx-1.spec.ports")
	chaos.Sweep(t, operators(t, "service-per-pod")[0], scenario, chaos.All, ports)
}
