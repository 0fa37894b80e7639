package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

func start(t *testing.T, opts cluster.Options) *cluster.Cluster {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Programs: cluster.Programs(opts.Tier)})
	if err != nil {
		t.Fatal(err)
	}
	opts.Binaries = set.Dir
	began := time.Now()
	c, err := cluster.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("tier %s ready after %v", opts.Tier, time.Since(began))
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestAPI(t *testing.T) {
	t.Parallel()
	var components []cluster.Component
	c := start(t, cluster.Options{Tier: cluster.API, Started: func(p cluster.Component) {
		components = append(components, p)
	}})
	var names []string
	for _, p := range components {
		names = append(names, p.Name)
		if !p.ID.Alive() {
			t.Errorf("%s does not run", p.Name)
		}
	}
	if want := []string{assets.Etcd, assets.APIServer}; !slices.Equal(names, want) {
		t.Errorf("started %q, want %q", names, want)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	for _, p := range components {
		if p.ID.Alive() {
			t.Errorf("%s still runs", p.Name)
		}
	}
	if _, err := os.Stat(c.Dir()); err == nil {
		t.Errorf("%s still exists", c.Dir())
	}
	if err := c.Err(); err != nil {
		t.Errorf("an orderly stop is not a failure: %v", err)
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	var etcd cluster.Component
	c := start(t, cluster.Options{Started: func(p cluster.Component) {
		if p.Name == assets.Etcd {
			etcd = p
		}
	}})
	if err := c.Err(); err != nil {
		t.Errorf("it runs, but: %v", err)
	}
	if err := etcd.ID.KillGroup(time.Minute); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "etcd ended unexpectedly (signal: killed)") {
		t.Errorf("%v", err)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		opts   cluster.Options
		want   string
	}{
		"Tier":     {"there are three", cluster.Options{Tier: "fast"}, `unknown tier "fast"; there are ["api" "workloads"`},
		"Programs": {"nothing can be started", cluster.Options{Binaries: t.TempDir()}, "finding etcd for the api tier"},
	}
	for name, tt := range tests {
		_, err := cluster.Start(t.Context(), tt.opts)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q, because %s", name, err, tt.want, tt.reason)
		}
	}
}

// A program that cannot start is reported with its error, and nothing is left behind.
func TestBrokenProgram(t *testing.T) {
	t.Parallel()
	programs, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range cluster.Programs(cluster.API) {
		script := "#!/bin/sh\necho this is why; exit 3\n"
		if err := os.WriteFile(filepath.Join(programs, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, err := cluster.Start(t.Context(), cluster.Options{Binaries: programs, Dir: data})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "this is why") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Errorf("%s still exists", data)
	}
}

// The configuration is the same after a round trip through a file.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := &rest.Config{Host: "https://127.0.0.1:1", BearerTokenFile: token, TLSClientConfig: rest.TLSClientConfig{
		CAData: []byte("authority"), ServerName: "name",
	}}
	data, err := cluster.Kubeconfig(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != want.Host || got.BearerTokenFile != want.BearerTokenFile ||
		string(got.CAData) != string(want.CAData) || got.ServerName != want.ServerName {
		t.Errorf("%v became %v", want, got)
	}
}

func TestWorkloads(t *testing.T) {
	t.Parallel()
	client := kubernetes.NewForConfigOrDie(start(t, cluster.Options{Tier: cluster.Workloads, Nodes: 2}).Config())
	checkDeployment(t, client)
	checkJob(t, client)
	checkStatefulSet(t, client)
}

var (
	meta   = metav1.ObjectMeta{Name: "web"}
	labels = map[string]string{"app": "web"}
)

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}

func checkDeployment(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	began := time.Now()
	deployment, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		deployment, err = client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && deployment.Status.AvailableReplicas == 3
	})
	t.Logf("Deployment of 3 available after %v", time.Since(began))
}

func checkJob(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pod := template()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	began := time.Now()
	if _, err := client.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{
		ObjectMeta: meta, Spec: batchv1.JobSpec{Template: pod},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		job, err := client.BatchV1().Jobs("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 1
	})
	t.Logf("Job complete after %v", time.Since(began))
}

// checkStatefulSet needs volumes.
func checkStatefulSet(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
	began := time.Now()
	if _, err := client.AppsV1().StatefulSets("default").Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		set, err := client.AppsV1().StatefulSets("default").Get(t.Context(), "db", metav1.GetOptions{})
		return err == nil && set.Status.ReadyReplicas == 2
	})
	t.Logf("StatefulSet of 2 with volumes ready after %v", time.Since(began))
	checkExpansion(t, client)
	checkReclaim(t, client)
}

// checkExpansion requests a larger volume: the volume grows first, then the claim's status.
func checkExpansion(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	claims, patch := client.CoreV1().PersistentVolumeClaims("default"), `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`
	_, err := claims.Patch(t.Context(), "data-db-0", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := resource.MustParse("2Gi")
	until(t, func() bool {
		claim, err := claims.Get(t.Context(), "data-db-0", metav1.GetOptions{})
		if err != nil || !claim.Status.Capacity.Storage().Equal(want) {
			return false
		}
		volume, err := client.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
		return err == nil && volume.Spec.Capacity.Storage().Equal(want)
	})
}

// checkReclaim deletes the users of the claims, then the claims: the volumes have to be deleted as well.
func checkReclaim(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	err := client.AppsV1().StatefulSets("default").Delete(t.Context(), "db", options)
	if err != nil {
		t.Fatal(err)
	}
	// No garbage collector runs here.
	pods, claims := client.CoreV1().Pods("default"), client.CoreV1().PersistentVolumeClaims("default")
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := claims.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	until(t, func() bool {
		list, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	t.Logf("volumes gone after %v", time.Since(began))
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	poll := func(context.Context) (bool, error) { return done(), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, poll); err != nil {
		t.Fatal(err)
	}
}
