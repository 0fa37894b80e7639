package myapp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The unchanged manifest of the founding article gives the children that its code creates.
func TestArticleManifest(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := sample(t, "example")
	k.Apply(app)
	k.Eventually(app, testkit.Ready(), pods(1), phase(v1.PhaseReady))
	if got, want := app.Status.Message, "App my-web-app resources created successfully."; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}

	data, set := checkArticleChildren(t, k)
	k.Eventually(app, child("PersistentVolumeClaim", "my-web-app-data", "Ready"), child("Deployment", "my-web-app", "Ready"),
		testkit.Condition("Available", metav1.ConditionTrue), testkit.Condition("VolumeBound", metav1.ConditionTrue),
		testkit.Condition("ResourcesApplied", metav1.ConditionTrue))
	if v := app.Status.Volume; v == nil || v.Phase != corev1.ClaimBound || v.Capacity != "1Gi" || v.Requested != "1Gi" {
		t.Errorf("the status says of the volume: %+v", v)
	}

	// Promises of the article that its code does not keep.
	deletedUID := set.UID
	k.Delete(set)
	k.Eventually(set, testkit.Match("another one", func(d *appsv1.Deployment) bool { return d.UID != deletedUID }))
	k.Eventually(app, testkit.Ready(), pods(1))
	k.Update(app, func() { app.Spec.Image = "nginx:1.22" })
	k.Eventually(set, image("nginx:1.22"), testkit.Ready())
	k.Eventually(app, testkit.Ready())
	k.Delete(app)
	k.Eventually(app, testkit.Gone())
	k.Eventually(set, testkit.Gone())
	k.Eventually(data, testkit.Exists()) // unlike the article's: only deletionPolicy: Delete deletes data
}

// checkArticleChildren checks the children field by field and returns them.
func checkArticleChildren(t *testing.T, k *testkit.K) (*corev1.PersistentVolumeClaim, *appsv1.Deployment) {
	t.Helper()
	data := claim("my-web-app-data")
	k.Get(data)
	if diff := cmp.Diff([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, data.Spec.AccessModes); diff != "" {
		t.Errorf("access modes, -want +got:\n%s", diff)
	}
	if size := data.Spec.Resources.Requests[corev1.ResourceStorage]; size.Cmp(resource.MustParse("1Gi")) != 0 {
		t.Errorf("the size is %s, want 1Gi", &size)
	}
	set := deployment("my-web-app")
	k.Get(set)
	if *set.Spec.Replicas != 1 || set.Spec.Selector.MatchLabels["app"] != "my-web-app" ||
		set.Spec.Template.Labels["app"] != "my-web-app" {
		t.Errorf("replicas %d, selector %v, labels %v", *set.Spec.Replicas, set.Spec.Selector, set.Spec.Template.Labels)
	}
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	if c.Name != "app-container" || c.Image != "nginx:1.21" || c.Ports[0].ContainerPort != 80 {
		t.Errorf("container %s, image %s, ports %v", c.Name, c.Image, c.Ports)
	}
	mount := []corev1.VolumeMount{{Name: "data-volume", MountPath: "/usr/share/nginx/html"}}
	if diff := cmp.Diff(mount, c.VolumeMounts); diff != "" {
		t.Errorf("mounts, -want +got:\n%s", diff)
	}
	if got := pod.Volumes[0]; got.Name != "data-volume" || got.PersistentVolumeClaim.ClaimName != "my-web-app-data" {
		t.Errorf("the volume is %v", got)
	}
	return data, set
}

// A MyApp without a specification has the defaults.
func TestDefaultsRun(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	app.Spec = v1.MyAppSpec{}
	k.Apply(app)
	k.Eventually(app, testkit.Ready(), pods(1))
	k.Eventually(deployment("a"), image("nginx:latest"))
}

// Hard scenario 1: a foreign Deployment with a child's name stays byte for byte, and the status names it. The app
// converges when the Deployment is deleted. The deletion of the app does not delete the Deployment.
func TestNameConflict(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	foreign := deployment("my-web-app")
	foreign.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "another"}}
	foreign.Spec.Template.Labels = foreign.Spec.Selector.MatchLabels
	foreign.Spec.Template.Spec.Containers = []corev1.Container{{Name: "theirs", Image: "theirs:1"}}
	k.Apply(foreign)
	k.Eventually(foreign, testkit.Ready())
	k.Get(foreign)
	before := foreign.DeepCopy()
	for _, name := range []string{"first", "second"} {
		app := sample(t, "example")
		k.Apply(app)
		k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"), phase(v1.PhaseFailed),
			child("Deployment", "my-web-app", "ResourceConflict"), testkit.Condition("ResourcesApplied", metav1.ConditionFalse))
		waitIdle(k, op)
		k.Get(foreign)
		if diff := cmp.Diff(before, foreign); diff != "" {
			t.Errorf("the foreign Deployment was changed (-before +after):\n%s", diff)
		}
		if name == "first" { // the app is deleted first
			k.Delete(app)
			k.Eventually(app, testkit.Gone())
			k.Eventually(foreign, testkit.Exists())
			continue
		}
		k.Delete(foreign)
		k.Eventually(app, testkit.Ready(), pods(1))
	}
}

// Hard scenario 3: external scaling is kept, and a change of the image is one write.
func TestExternalScalingIsKept(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	app := newMyApp("a")
	app.Spec.Storage.Enabled = new(false)
	k.Apply(app)
	k.Eventually(app, testkit.Ready(), pods(1))
	set := deployment("a")
	k.Update(set, func() { set.Spec.Replicas = new(int32(5)) })
	k.Eventually(app, testkit.Ready(), pods(5))
	waitIdle(k, op)
	op.Recorder().Reset()
	k.Update(app, func() { app.Spec.Image = "nginx:1.22" })
	k.Eventually(set, image("nginx:1.22"), replicas(5), testkit.Ready())
	k.Eventually(app, testkit.Ready(), pods(5))
	waitIdle(k, op)
	n := 0
	for _, r := range writes(op) {
		if r.Resource == "deployments" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the Deployment was written %d times, want once: %v", n, writes(op))
	}
	k.Update(app, func() { app.Spec.Replicas = new(int32(2)) })
	k.Eventually(set, replicas(2))
	k.Update(app, func() { app.Spec.Replicas = nil })
	k.Eventually(app, testkit.Ready(), pods(2))
}

// The scale subresource works for kubectl scale and, once replicas is set, for a user's HorizontalPodAutoscaler of the
// MyApp.
func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	app.Spec.Storage.Enabled = new(false)
	k.Apply(app)
	k.Eventually(app, testkit.Ready(), pods(1))
	asKubectlDoes := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))
	scale := &autoscalingv1.Scale{}
	err := k.Client.SubResource("scale").Patch(k.Context(), app, asKubectlDoes, client.WithSubResourceBody(scale))
	if err != nil {
		t.Fatal(err)
	}
	k.Eventually(app, testkit.Ready(), pods(2))
	if err := k.Client.SubResource("scale").Get(k.Context(), app, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Status.Replicas != 2 || scale.Status.Selector != "app=a" {
		t.Errorf("the scale is %+v", scale.Status)
	}
	scale.Spec.Replicas = 3
	if err := k.Client.SubResource("scale").Update(k.Context(), app, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	k.Eventually(deployment("a"), replicas(3))
	k.Eventually(app, testkit.Ready(), pods(3))
}

// Optional children exist while they are requested.
func TestServiceIngressAutoscaler(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := fullMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready(), pods(2), testkit.Match("url", func(o *v1.MyApp) bool {
		return o.Status.URL == "http://a.example.com/"
	}))
	inside, outside := service("a"), &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	k.Get(inside)
	k.Get(outside)
	k.Get(scaler)
	port := inside.Spec.Ports[0].Name
	if got := outside.Spec.Rules[0].HTTP.Paths[0].Backend.Service; got.Name != "a" || got.Port.Name != port {
		t.Errorf("the Ingress leads to %v, and the Service has %v", got, inside.Spec.Ports)
	}
	if ref := scaler.Spec.ScaleTargetRef; ref.Kind != "Deployment" || ref.Name != "a" || scaler.Spec.MaxReplicas != 3 {
		t.Errorf("the autoscaler is %+v", scaler.Spec)
	}
	k.Update(app, func() {
		app.Spec.Service.Port = new(int32(8080))
		app.Spec.Ingress.TLSSecretName = "certificate"
		app.Spec.Autoscaling.TargetCPUUtilizationPercentage = 50
	})
	k.Eventually(inside, testkit.Match("port 8080", func(s *corev1.Service) bool { return s.Spec.Ports[0].Port == 8080 }))
	k.Eventually(app, testkit.Match("url", func(o *v1.MyApp) bool { return o.Status.URL == "https://a.example.com/" }))
	k.Update(app, func() {
		app.Spec.Service.Enabled = false
		app.Spec.Ingress.Enabled = false
		app.Spec.Autoscaling = nil
	})
	k.Eventually(inside, testkit.Gone())
	k.Eventually(outside, testkit.Gone())
	k.Eventually(scaler, testkit.Gone())
	k.Eventually(app, testkit.Ready(), testkit.Match("nothing of them", func(o *v1.MyApp) bool {
		return o.Status.URL == "" && len(o.Status.Resources) == 2
	}))
}

// The pod template is merged with the generated one.
func TestPodTemplate(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	app.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{
		"metadata": {"labels": {"app": "theirs", "team": "shop"}},
		"spec": {"terminationGracePeriodSeconds": 5, "containers": [
			{"name": "app-container", "workingDir": "/tmp"}, {"name": "sidecar", "image": "sidecar:1"}
		]}}`)}
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	set := deployment("a")
	k.Get(set)
	pod := set.Spec.Template
	if pod.Labels["app"] != "a" || pod.Labels["team"] != "shop" || *pod.Spec.TerminationGracePeriodSeconds != 5 {
		t.Errorf("labels %v, grace period %d", pod.Labels, *pod.Spec.TerminationGracePeriodSeconds)
	}
	byName := map[string]corev1.Container{}
	for _, c := range pod.Spec.Containers {
		byName[c.Name] = c
	}
	c := byName["app-container"]
	if c.WorkingDir != "/tmp" || c.Image != "nginx:1.21" || byName["sidecar"].Image != "sidecar:1" {
		t.Errorf("the containers are %v", byName)
	}
	k.Update(app, func() { app.Spec.PodTemplate.Raw = []byte(`{"spec": {"contaners": []}}`) })
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "InvalidPodTemplate"))
	k.Eventually(set, testkit.Exists())
	k.Update(app, func() { app.Spec.PodTemplate = nil })
	k.Eventually(app, testkit.Ready(), pods(1))
}

// The Ready condition has the reason of a pod that cannot run, and a correct image is enough.
func TestWrongImage(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	app := newMyApp("a")
	app.Spec.Image = "does-not-exist:1"
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ImagePullBackOff"), phase(v1.PhaseProgressing))
	waitIdle(k, op)
	k.Update(app, func() { app.Spec.Image = "nginx:1.21" })
	k.Eventually(app, testkit.Ready(), testkit.Match("the image that runs", func(o *v1.MyApp) bool {
		return o.Status.Image == "nginx:1.21"
	}))
}

// A paused app is not written.
func TestPaused(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	k.Update(app, func() {
		app.Spec.Paused = true
		app.Spec.Image = "nginx:1.22"
	})
	k.Eventually(app, testkit.Condition("Paused", metav1.ConditionTrue))
	waitIdle(k, op)
	k.Eventually(deployment("a"), image("nginx:1.21"))
	k.Update(app, func() { app.Spec.Paused = false })
	k.Eventually(deployment("a"), image("nginx:1.22"))
	k.Eventually(app, testkit.Ready())
}

// An immutable selector is reported. The annotation permits to replace the Deployment without its pods.
func TestForeignSelector(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	op.Stop()
	set := deployment("a")
	k.Get(set)
	restored := set.DeepCopy()
	restored.ResourceVersion = ""
	restored.UID = ""
	restored.Spec.Selector.MatchLabels["app"], restored.Spec.Template.Labels["app"] = "b", "b"
	k.Delete(set)
	k.Eventually(set, testkit.Gone())
	k.Apply(restored)
	start(k)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ImmutableField"))
	k.Update(app, func() { app.Annotations = map[string]string{"mycompany.com/recreate": "true"} })
	k.Eventually(app, testkit.Ready())
	k.Eventually(set, testkit.Match("our selector", func(d *appsv1.Deployment) bool {
		return d.Spec.Selector.MatchLabels["app"] == "a"
	}))
}
