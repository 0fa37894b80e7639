package testkit

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// LoadPackage compiles a Go command without C, and gives it to the real nodes as LoadProgram does. The arguments are those
// of go build: a folder or an import path, after flags. Package github.com/homeostat-dev/homeostat/testkit/cmd/web is a
// server for tests.
func (k *K) LoadPackage(image string, build ...string) {
	k.t.Helper()
	dir, err := k.folder()
	if err != nil {
		k.t.Fatalf("compiling image %s: %v", image, err)
	}
	program := filepath.Join(dir, "program")
	cmd := exec.CommandContext(k.Context(), "go", append([]string{"build", "-o", program}, build...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("compiling image %s: %v\n%s", image, err, out)
	}
	k.LoadProgram(image, program)
}

// Fetch returns the response to a GET request to a port of a pod, through the API server, such as Fetch(pod, 8080,
// "/a?b=c"). A status other than 200 is an error, and so is a server that does not respond within K.Timeout.
func (k *K) Fetch(pod *corev1.Pod, port int, path string) (string, error) {
	clientset, err := kubernetes.NewForConfig(k.Config)
	if err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	target, err := url.Parse(path)
	if err != nil {
		return "", fmt.Errorf("fetching %s from pod %s: %w", path, pod.Name, err)
	}
	params := map[string]string{}
	for name := range target.Query() {
		params[name] = target.Query().Get(name)
	}
	namespace := pod.Namespace
	if namespace == "" {
		namespace = k.Namespace
	}
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	pods := clientset.CoreV1().Pods(namespace)
	body, err := pods.ProxyGet("http", pod.Name, strconv.Itoa(port), target.Path, params).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("fetching %s from pod %s: %w", path, pod.Name, err)
	}
	return string(body), nil
}

// Evict evicts a pod through the API, as kubectl drain does. It repeats a rejected eviction for up to K.Timeout, because a
// PodDisruptionBudget may permit it later, and does not wait until the pod is gone: see Gone.
func (k *K) Evict(pod *corev1.Pod) {
	k.t.Helper()
	if _, err := k.locate(pod); err != nil {
		k.t.Fatalf("evicting pod %s: %v", pod.Name, err)
	}
	k.Wait("pod "+pod.Name+" is evicted", func(ctx context.Context) error { return k.evict(ctx, pod) })
}

// evict evicts a pod, and not one that replaces it.
func (k *K) evict(ctx context.Context, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if pod.UID != "" {
		eviction.DeleteOptions = &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	}
	return k.Client.SubResource("eviction").Create(ctx, pod, eviction)
}
