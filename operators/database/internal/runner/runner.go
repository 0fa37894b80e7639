//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat-dev/homeostat/testkit"
)

// waitDelay is the time until the output of an ended command is closed.
const waitDelay = time.Second

// A Runner executes the pods of one test's namespace.
type Runner struct {
	t         testing.TB
	k         *testkit.K
	client    kubernetes.Interface
	sandbox   *sandbox
	nodes     []string
	informers informers.SharedInformerFactory
	changed   chan struct{} // receives after a change of Services or endpoints
	tasks     sync.WaitGroup

	mu      sync.Mutex
	pods    map[types.UID]*pod
	count   int // of all pods so far
	hosts   string
	oldLogs strings.Builder // output of removed pods
	stopped bool
}

// Start executes all later pods of the test's namespace until the test ends. The programs are those that the containers
// need. Without them or without root permissions, the test is skipped.
func Start(t testing.TB, k *testkit.K, programs ...string) *Runner {
	t.Helper()
	requirePrograms(t, append(programs, "ip", "setpriv", "mount"))
	shared, err := newSandbox()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("this machine does not let its root make namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.createBridge(); err != nil {
		t.Fatal(err)
	}
	cfg := rest.CopyConfig(k.Config)
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	r := &Runner{
		t: t, k: k, client: client, sandbox: shared, pods: map[types.UID]*pod{}, changed: make(chan struct{}, 1),
		informers: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(k.Namespace)),
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { r.close(cancel) })
	r.redirectPods()
	if err := r.register(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.startInformers(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// requirePrograms skips the test if a program or root permissions are missing. If CI is set, a missing program is an error.
func requirePrograms(t testing.TB, programs []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers are run by root only: namespaces, mounts and other users")
	}
	for _, program := range programs {
		found := false
		for dir := range strings.SplitSeq(Path(), ":") {
			_, err := exec.LookPath(dir + "/" + program)
			found = found || err == nil
		}
		if why := program + " is not installed, and takes the place of what is in an image"; !found && os.Getenv("CI") != "" {
			t.Fatal(why)
		} else if !found {
			t.Skip(why)
		}
	}
}

// startInformers watches pods, Services and endpoints of the namespace.
func (r *Runner) startInformers(ctx context.Context) error {
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		r.informers.Core().V1().Pods().Informer(): {
			AddFunc:    func(o any) { r.handlePod(o, false) },
			UpdateFunc: func(_, o any) { r.handlePod(o, false) },
			DeleteFunc: func(o any) { r.handlePod(o, true) },
		},
		r.informers.Core().V1().Services().Informer():            r.notify(),
		r.informers.Discovery().V1().EndpointSlices().Informer(): r.notify(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	r.informers.StartWithContext(ctx)
	r.informers.WaitForCacheSync(ctx.Done())
	r.tasks.Go(func() { r.runRouting(ctx) })
	return nil
}

func (r *Runner) notify() cache.ResourceEventHandlerFuncs {
	tell := func() {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
	}
}

// handlePod starts a pod that was scheduled to a node of the runner, and stops a deleted one.
func (r *Runner) handlePod(o any, gone bool) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	object, ok := o.(*corev1.Pod)
	if !ok || !strings.HasPrefix(object.Spec.NodeName, r.nodeName("")) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[object.UID]
	if p == nil {
		if gone || r.stopped || object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed {
			return
		}
		p = newPod(r, object, r.count)
		r.pods[object.UID] = p
		r.count++
		go p.runLifecycle()
	}
	switch {
	case gone:
		p.terminate(0)
	case object.DeletionTimestamp != nil && object.DeletionGracePeriodSeconds != nil:
		p.terminate(time.Duration(*object.DeletionGracePeriodSeconds) * time.Second)
	}
}

// removePod removes a pod after its last process has ended.
func (r *Runner) removePod(p *pod) {
	logs := p.logs()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.oldLogs.WriteString(logs)
	delete(r.pods, p.object.UID)
	_ = os.RemoveAll(r.sandbox.files + "/" + p.directory())
}

// runRouting updates names and cluster IPs after each change.
func (r *Runner) runRouting(ctx context.Context) {
	proxies := map[string]*proxy{}
	defer func() {
		for _, p := range proxies {
			_ = p.listener.Close()
		}
	}()
	for {
		services, err := r.informers.Core().V1().Services().Lister().List(labels.Everything())
		slices, err2 := r.informers.Discovery().V1().EndpointSlices().Lister().List(labels.Everything())
		err = errors.Join(err, err2, r.writeHosts(services, slices), r.sandbox.updateProxies(proxies, routes(services, slices)))
		if err != nil {
			r.t.Logf("the network of the pods: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		}
	}
}

// writeHosts writes /etc/hosts of all pods.
func (r *Runner) writeHosts(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts = hosts(r.k.Namespace, services, slices)
	var errs []error
	for _, p := range r.pods {
		errs = append(errs, p.writeHosts(r.hosts))
	}
	return errors.Join(errs...)
}

// pod returns the running pod of that name, or fails the test.
func (r *Runner) pod(name string) *pod {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		if p.object.Name == name {
			return p
		}
	}
	r.t.Fatalf("there is no pod %s that runs", name)
	return nil
}

// Exec runs a command in a running container, as `kubectl exec` does, and returns its standard output. Standard error is in
// the error, an [exec.ExitError] if the exit code is not 0.
func (r *Runner) Exec(pod, container string, argv ...string) (string, error) {
	r.t.Helper()
	p := r.pod(pod).process(container)
	if p == nil {
		r.t.Fatalf("container %s of pod %s does not run", container, pod)
	}
	return r.sandbox.exec(r.t.Context(), p, argv)
}

// Kill kills all containers of a pod at once, as if its node had run out of memory. They are restarted by the restart
// policy.
func (r *Runner) Kill(pod string) {
	r.t.Helper()
	r.pod(pod).signal(unix.SIGKILL)
}

// Logs returns the output of a running pod's containers; "" means all pods, including removed ones.
func (r *Runner) Logs(pod string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all strings.Builder
	if pod == "" {
		all.WriteString(r.oldLogs.String())
	}
	for _, p := range r.pods {
		if pod == "" || pod == p.object.Name {
			all.WriteString(p.logs())
		}
	}
	return all.String()
}

// Dial connects from a node to host:port. The host is an address or the name of a Service with a cluster IP.
func (r *Runner) Dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil {
		service, err := r.client.CoreV1().Services(r.k.Namespace).Get(ctx, host, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("looking for an address: %w", err)
		}
		host = service.Spec.ClusterIP
	}
	return r.sandbox.dial(ctx, net.JoinHostPort(host, port))
}

// close stops everything. If the test has failed, it logs the output of the containers.
func (r *Runner) close(cancel context.CancelFunc) {
	if r.t.Failed() {
		r.t.Logf("what the containers printed:\n%s", r.Logs(""))
	}
	r.mu.Lock()
	r.stopped = true
	pods := make([]*pod, 0, len(r.pods))
	for _, p := range r.pods {
		pods = append(pods, p)
	}
	r.mu.Unlock()
	for _, p := range pods {
		p.terminate(0)
		<-p.done
	}
	if err := r.unregister(); err != nil {
		r.t.Errorf("cleaning up: %v", err)
	}
	cancel()
	r.informers.Shutdown()
	r.tasks.Wait()
	r.sandbox.close()
}
