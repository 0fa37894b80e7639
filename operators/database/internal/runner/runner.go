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

// waitDelay is how long the output of a command may stay open after it has ended.
const waitDelay = time.Second

// A Runner executes the pods of one test's namespace.
type Runner struct {
	t         testing.TB
	k         *testkit.K
	client    kubernetes.Interface
	sandbox   *sandbox
	nodes     []string
	informers informers.SharedInformerFactory
	changed   chan struct{} // that Services or endpoints did
	tasks     sync.WaitGroup

	mu      sync.Mutex
	pods    map[types.UID]*pod
	count   int // of all pods so far
	hosts   string
	past    strings.Builder // what pods that are gone have printed
	stopped bool
}

// Start executes all pods of the test's namespace that are created from now on, until the test ends. The programs named are
// those that their containers will need. Where they are not installed, or this is not root, the test is skipped.
func Start(t testing.TB, k *testkit.K, programs ...string) *Runner {
	t.Helper()
	need(t, append(programs, "ip", "setpriv", "mount"))
	shared, err := newSandbox()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("this machine does not let its root make namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.connect(); err != nil {
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
	r.attract()
	if err := r.register(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.follow(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// need skips the test where something is missing that nobody can expect everywhere. Where CI is set, programs can be.
func need(t testing.TB, programs []string) {
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

// follow takes up pods, and says how to reach them, as the API server has it.
func (r *Runner) follow(ctx context.Context) error {
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		r.informers.Core().V1().Pods().Informer(): {
			AddFunc:    func(o any) { r.see(o, false) },
			UpdateFunc: func(_, o any) { r.see(o, false) },
			DeleteFunc: func(o any) { r.see(o, true) },
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
	r.tasks.Go(func() { r.route(ctx) })
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

// see begins with a pod that has one of our nodes, and ends one that is deleted.
func (r *Runner) see(o any, gone bool) {
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
		go p.live()
	}
	switch {
	case gone:
		p.terminate(0)
	case object.DeletionTimestamp != nil && object.DeletionGracePeriodSeconds != nil:
		p.terminate(time.Duration(*object.DeletionGracePeriodSeconds) * time.Second)
	}
}

// forget is called by a pod when nothing of it runs any more.
func (r *Runner) forget(p *pod) {
	logs := p.logs()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past.WriteString(logs)
	delete(r.pods, p.object.UID)
	_ = os.RemoveAll(r.sandbox.files + "/" + p.directory())
}

// route keeps names and cluster IPs leading where they should.
func (r *Runner) route(ctx context.Context) {
	proxies := map[string]*proxy{}
	defer func() {
		for _, p := range proxies {
			_ = p.listener.Close()
		}
	}()
	for {
		services, err := r.informers.Core().V1().Services().Lister().List(labels.Everything())
		slices, err2 := r.informers.Discovery().V1().EndpointSlices().Lister().List(labels.Everything())
		err = errors.Join(err, err2, r.publish(services, slices), r.sandbox.reroute(proxies, routes(services, slices)))
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

// publish writes /etc/hosts of all pods.
func (r *Runner) publish(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts = hosts(r.k.Namespace, services, slices)
	var errs []error
	for _, p := range r.pods {
		errs = append(errs, p.publish(r.hosts))
	}
	return errors.Join(errs...)
}

// pod finds one that runs.
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

// Exec runs a command in a container that runs, as `kubectl exec` does, and returns what it prints. What it complains of is
// in the error, which is an [exec.ExitError] if the command ended with another code than 0.
func (r *Runner) Exec(pod, container string, argv ...string) (string, error) {
	r.t.Helper()
	p := r.pod(pod).process(container)
	if p == nil {
		r.t.Fatalf("container %s of pod %s does not run", container, pod)
	}
	return r.sandbox.exec(r.t.Context(), p, argv)
}

// Kill ends all containers of a pod at once, as if its node had run out of memory. They are started again as the pod says.
func (r *Runner) Kill(pod string) {
	r.t.Helper()
	r.pod(pod).signal(unix.SIGKILL)
}

// Logs returns what the containers of a pod that runs have printed so far, or those of all pods there ever were if it is "".
func (r *Runner) Logs(pod string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all strings.Builder
	if pod == "" {
		all.WriteString(r.past.String())
	}
	for _, p := range r.pods {
		if pod == "" || pod == p.object.Name {
			all.WriteString(p.logs())
		}
	}
	return all.String()
}

// Dial connects from a node to host:port, where host is the name of a Service that has a cluster IP, or an address.
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

// close ends everything, and says what the containers printed if the test has failed.
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
