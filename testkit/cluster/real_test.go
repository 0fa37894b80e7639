//go:build linux

package cluster_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode/permit"
)

// realTimeout bounds each wait of the tests with real nodes.
const realTimeout = 2 * time.Minute

// startReal starts a cluster with real nodes, and gives it the image example/web.
func startReal(t *testing.T, nodes int) (*cluster.Cluster, kubernetes.Interface) {
	t.Helper()
	skip, err := permit.RealNodes(nil)
	check(t, err)
	if skip != nil {
		t.Skip(skip)
	}
	programs, err := assets.FindNodes(t.Context(), assets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, cluster.Options{
		Tier: cluster.Real, Nodes: nodes, NodePrograms: programs.Dir, NodeLease: 4 * time.Second,
	})
	web := filepath.Join(t.TempDir(), "web")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", web, "./testdata/web")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check(t, hub(c).LoadProgram(t.Context(), "example/web:1", web))
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, realTimeout, true, holds); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

const ns = metav1.NamespaceDefault

// webDeployment has one pod with a volume, on any node.
func webDeployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			SecurityContext:               &corev1.PodSecurityContext{FSGroup: new(int64(65532))},
			Containers: []corev1.Container{{
				Name: "web", Image: "example/web:1", ImagePullPolicy: corev1.PullAlways,
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)},
				}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		}},
	}}
}

// A container serves through the name of its Service, stores in a volume, and moves to another node with it. The loss of the
// power of a node is seen, and its end.
func TestReal(t *testing.T) {
	t.Parallel()
	c, client := startReal(t, 2)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("512Mi")}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	_, err := client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), claim, metav1.CreateOptions{})
	check(t, err)
	_, err = client.CoreV1().Services(ns).Create(t.Context(), service, metav1.CreateOptions{})
	check(t, err)
	_, err = client.AppsV1().Deployments(ns).Create(t.Context(), webDeployment(), metav1.CreateOptions{})
	check(t, err)
	pod := readyPod(t, client)
	if out := get(t, client, "http://web."+ns+".svc.cluster.local"); out != " of "+pod.Name {
		t.Errorf("through the name of the Service came %q", out)
	}
	logs, err := client.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(logs), "serving") {
		t.Errorf("the log of the pod is %q, %v", logs, err)
	}
	// A request through the API server, which reaches the pod's network.
	out, err := client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/" + ns + "/pods/" + pod.Name + ":8080/proxy/").
		DoRaw(t.Context())
	if err != nil || string(out) != "stored of "+pod.Name {
		t.Errorf("through the API server came %q, %v", out, err)
	}

	node, err := client.CoreV1().Nodes().Patch(t.Context(), pod.Spec.NodeName, types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}) // kubelet writes its status in the meantime
	check(t, err)
	check(t, client.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	moved := readyPod(t, client)
	if moved.Spec.NodeName == node.Name {
		t.Errorf("the pod is still on %s", node.Name)
	}
	checkResults(t, moved.Name)
	if out := get(t, client, "http://web"); out != "stored of "+moved.Name {
		t.Errorf("on the other node came %q", out)
	}

	check(t, hub(c).ActOnNode(t.Context(), node.Name, "stop"))
	eventually(t, "the node is not ready", nodeIs(client, node.Name, false))
	check(t, hub(c).ActOnNode(t.Context(), node.Name, "start"))
	eventually(t, "the node is ready", nodeIs(client, node.Name, true))
}

// checkResults fails the test if plugins of the network have written about a pod into the machine's folder.
func checkResults(t *testing.T, pod string) {
	t.Helper()
	files, err := filepath.Glob("/var/lib/cni/results/*")
	check(t, err)
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), pod) {
			t.Errorf("%s of the machine is about pod %s", file, pod)
		}
	}
}

// The end of the hub, however it comes, is the end of all processes of the nodes, and of their mounts.
func TestRealIsKilled(t *testing.T) {
	t.Parallel()
	c, _ := startReal(t, 1)
	// inside returns the programs that run in the namespaces of the nodes, by their files in the folder of the cluster.
	inside := func() (found []string) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		check(t, err)
		for _, file := range files {
			line, err := os.ReadFile(file)
			program, args, _ := strings.Cut(string(line), "\x00")
			ours := []string{spec.Hub, spec.Kubelet, spec.KubeProxy, spec.CoreDNS, spec.Volume, spec.Sidecars}
			if err == nil && strings.Contains(args, c.Dir()) && slices.Contains(ours, filepath.Base(program)) {
				found = append(found, filepath.Base(program))
			}
		}
		return found
	}
	hubs := func() (pids []string) {
		out, err := exec.CommandContext(t.Context(), "pgrep", "-f", spec.Hub+" "+c.Dir()).Output()
		if err != nil {
			return nil
		}
		return strings.Fields(string(out))
	}
	var network spec.Network
	data, err := os.ReadFile(filepath.Join(c.Dir(), "network.json"))
	check(t, err)
	check(t, json.Unmarshal(data, &network))
	const programs = 8 // hub and driver of volumes twice, and four others
	if found := inside(); len(found) < programs {
		t.Fatalf("only %q run", found)
	}
	check(t, exec.CommandContext(t.Context(), "kill", append([]string{"-9"}, hubs()...)...).Run())
	<-c.Done()
	eventually(t, "no program of the nodes runs", func(context.Context) (bool, error) { return len(inside()) == 0, nil })
	eventually(t, "no loop device is left", func(ctx context.Context) (bool, error) {
		out, err := exec.CommandContext(ctx, "losetup", "-a").Output()
		return !strings.Contains(string(out), c.Dir()), err
	})
	check(t, c.Stop())
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + network.ID)
	check(t, err)
	if len(groups) > 0 {
		t.Errorf("the groups %q are left", groups)
	}
}

// readyPod returns the only pod of the Deployment when it is ready.
func readyPod(t *testing.T, client kubernetes.Interface) (ready corev1.Pod) {
	t.Helper()
	eventually(t, "the pod is ready", func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil || len(pods.Items) != 1 || pods.Items[0].DeletionTimestamp != nil {
			return false, err
		}
		ready = pods.Items[0]
		for _, c := range ready.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
	return ready
}

// get returns what a Job in the cluster gets from a URL.
func get(t *testing.T, client kubernetes.Interface, url string) string {
	t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{GenerateName: "get-"}}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: "get", Image: "example/web:1", Args: []string{url},
	}}}
	job, err := client.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{})
	check(t, err)
	eventually(t, "the Job has the response", func(ctx context.Context) (bool, error) {
		job, err = client.BatchV1().Jobs(ns).Get(ctx, job.Name, metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 1, err
	})
	pods, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job.Name})
	check(t, err)
	logs, err := client.CoreV1().Pods(ns).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	check(t, err)
	_, last, _ := strings.Cut("\n"+string(logs), "\n")
	if i := strings.LastIndex(last, "\n"); i >= 0 {
		last = last[i+1:]
	}
	return last
}

func hub(c *cluster.Cluster) realnode.Hub {
	return realnode.Hub{Socket: filepath.Join(c.Dir(), spec.ControlSocket)}
}

func nodeIs(client kubernetes.Interface, name string, ready bool) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return ready == (c.Status == corev1.ConditionTrue), nil
			}
		}
		return false, nil
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
