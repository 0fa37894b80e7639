// Package realnodes_test runs the pods of workloads that use ConfigMaps on real nodes.
package realnodes_test

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		RBAC: "../../config/rbac", AdmissionPolicies: "../../config/access/fence.yaml",
		Real: &testkit.RealNodes{},
	})
}

const (
	image  = "example/web:1"
	port   = 8080
	prefix = "rollout.homeostat.dev/"
)

// start returns a test with real nodes that have the image, and runs the operator with a short quiet period.
func start(t *testing.T) *testkit.K {
	t.Helper()
	k := testkit.New(t)
	k.Timeout = 5 * time.Minute
	k.LoadPackage(image, "github.com/homeostat-dev/homeostat/testkit/cmd/web")
	options := configrollout.DefaultOptions()
	options.QuietPeriod = time.Second
	operator, err := configrollout.New(options)
	if err != nil {
		t.Fatal(err)
	}
	k.Run(operator)
	return k
}

const replicas = 3

// deployment returns an enabled Deployment of a server that reads the ConfigMap once, as a file and as a variable.
func deployment(update appsv1.RollingUpdateDeployment) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	conf := corev1.LocalObjectReference{Name: "conf"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{prefix + "enabled": "true"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &update},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{
					Name: "web", Image: image, Args: []string{"-load", "/conf/text"},
					Env: []corev1.EnvVar{{Name: "TEXT", ValueFrom: &corev1.EnvVarSource{
						ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: conf, Key: "text"},
					}}},
					// On a busy machine a ready container stays ready.
					ReadinessProbe: &corev1.Probe{
						PeriodSeconds: 1, TimeoutSeconds: 30, FailureThreshold: 10,
						ProbeHandler: corev1.ProbeHandler{
							HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(port)},
						},
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: "/conf"}},
				}},
				Volumes: []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: conf},
				}}},
			}},
		},
	}
}

// After a change of a ConfigMap the processes of all pods have read the new content, and there were always as many ready
// pods as the strategy of the Deployment promises.
func TestNewContentIsRead(t *testing.T) {
	t.Parallel()
	for name, update := range map[string]struct{ surge, unavailable int32 }{
		"one more":  {surge: 1},
		"one fewer": {unavailable: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := start(t)
			conf := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "conf"}, Data: map[string]string{"text": "old"}}
			k.Apply(conf)
			web := deployment(appsv1.RollingUpdateDeployment{
				MaxSurge: new(intstr.FromInt32(update.surge)), MaxUnavailable: new(intstr.FromInt32(update.unavailable)),
			})
			k.Apply(web)
			k.Eventually(web, testkit.Ready(), testkit.Match("adopted", func(d *appsv1.Deployment) bool {
				return d.Annotations[prefix+"observed-digest"] != ""
			}))
			before := expectContent(t, k, "old")
			fewest := watchReady(t, k)

			k.Update(conf, func() { conf.Data["text"] = "new" })
			k.Eventually(web, testkit.Ready(), testkit.Match("rolled", func(d *appsv1.Deployment) bool {
				digest := d.Spec.Template.Annotations[prefix+"config-digest"]
				return digest != "" && digest == d.Annotations[prefix+"observed-digest"]
			}))
			after := expectContent(t, k, "new")
			for uid := range after {
				if before[uid] {
					t.Errorf("pod %s has not been replaced", uid)
				}
			}
			if n := fewest(); n < replicas-int(update.unavailable) {
				t.Errorf("there were only %d ready pods, want at least %d", n, replicas-update.unavailable)
			}
		})
	}
}

// expectContent checks what the processes of all pods that are not ending have read, and returns the UIDs of these pods.
func expectContent(t *testing.T, k *testkit.K, want string) map[types.UID]bool {
	t.Helper()
	pods := &corev1.PodList{}
	if err := k.Client.List(k.Context(), pods, client.InNamespace(k.Namespace)); err != nil {
		t.Fatal(err)
	}
	found := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil {
			continue
		}
		found[pod.UID] = true
		for _, path := range []string{"/loaded", "/env/TEXT"} {
			if text, err := k.Fetch(pod, port, path); err != nil || text != want {
				t.Errorf("%s of pod %s has %q, %v; want %q", path, pod.Name, text, err, want)
			}
		}
	}
	if len(found) != replicas {
		t.Errorf("there are %d pods, want %d", len(found), replicas)
	}
	return found
}

// watchReady watches the pods, and returns a function that ends this and returns the smallest number of ready pods. A pod
// that is being deleted is not one of them.
func watchReady(t *testing.T, k *testkit.K) (fewest func() int) {
	t.Helper()
	pods := &corev1.PodList{}
	if err := k.Client.List(k.Context(), pods, client.InNamespace(k.Namespace)); err != nil {
		t.Fatal(err)
	}
	ready := map[types.UID]bool{}
	for i := range pods.Items {
		ready[pods.Items[i].UID] = isReady(&pods.Items[i])
	}
	events, err := k.Client.Watch(k.Context(), &corev1.PodList{}, client.InNamespace(k.Namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: pods.ResourceVersion},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	const last = "test.homeostat.dev/last" // marks the last event
	result := make(chan int, 1)
	go func() {
		defer close(result)
		n := replicas
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			switch {
			case !ok:
				return // an error
			case pod.Annotations[last] != "":
				result <- n
				return
			}
			ready[pod.UID] = event.Type != watch.Deleted && isReady(pod)
			n = min(n, count(ready))
		}
	}()
	return func() int {
		t.Helper()
		marker := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "marker", Annotations: map[string]string{last: "true"}}}
		marker.Spec.Containers = []corev1.Container{{Name: "c", Image: image}}
		k.Apply(marker)
		n, ok := <-result
		if !ok {
			t.Fatal("the watch of the pods has ended")
		}
		return n
	}
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func count(set map[types.UID]bool) (n int) {
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}
