package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	merge := []byte(`{"data":{"k":"v"}}`)
	dry := []string{metav1.DryRunAll}
	tests := map[string]struct {
		reason string
		send   func(ctx context.Context, c kubernetes.Interface, ns string) error
		want   recorder.Request // without the namespace
	}{
		"Get": {
			reason: "the name is in the path",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				_, err := c.CoreV1().ConfigMaps(ns).Get(ctx, "x", metav1.GetOptions{})
				return err
			},
			want: recorder.Request{Verb: "get", Resource: "configmaps", Name: "x", Code: 200},
		},
		"NotFound": {
			reason: "every response counts",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				_, _ = c.CoreV1().ConfigMaps(ns).Get(ctx, "nothing", metav1.GetOptions{})
				return nil
			},
			want: recorder.Request{Verb: "get", Resource: "configmaps", Name: "nothing", Code: 404},
		},
		"List": {
			reason: "a list has no name",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				_, err := c.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
				return err
			},
			want: recorder.Request{Verb: "list", Resource: "configmaps", Code: 200},
		},
		"Create": {
			reason: "the name is in the body",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				_, err := c.CoreV1().ConfigMaps(ns).Create(ctx, configMap("new"), metav1.CreateOptions{})
				return err
			},
			want: recorder.Request{Verb: "create", Resource: "configmaps", Name: "new", Code: 201},
		},
		"CreateConflict": {
			reason: "the response lacks the name",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				_, _ = c.CoreV1().ConfigMaps(ns).Create(ctx, configMap("x"), metav1.CreateOptions{})
				return nil
			},
			want: recorder.Request{Verb: "create", Resource: "configmaps", Name: "x", Code: 409},
		},
		"DryRun": {
			reason: "it changes nothing",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				_, err := c.CoreV1().ConfigMaps(ns).Create(ctx, configMap("dry"), metav1.CreateOptions{DryRun: dry})
				return err
			},
			want: recorder.Request{Verb: "create", Resource: "configmaps", Name: "dry", Code: 201, DryRun: true},
		},
		"Patch": {
			reason: "a patch is no apply",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				_, err := c.CoreV1().ConfigMaps(ns).Patch(ctx, "x", types.MergePatchType, merge, metav1.PatchOptions{})
				return err
			},
			want: recorder.Request{Verb: "patch", Resource: "configmaps", Name: "x", Code: 200},
		},
		"Apply": {
			reason: "an apply is a PATCH with its own content type",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				_, err := c.CoreV1().ConfigMaps(ns).Apply(ctx, applycorev1.ConfigMap("applied", ns),
					metav1.ApplyOptions{FieldManager: "test"})
				return err
			},
			want: recorder.Request{Verb: "apply", Resource: "configmaps", Name: "applied", Code: 201},
		},
		"Update": {
			reason: "the code shows the rejection",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				bad := configMap("x")
				bad.ResourceVersion = "1"
				_, _ = c.CoreV1().ConfigMaps(ns).Update(ctx, bad, metav1.UpdateOptions{})
				return nil
			},
			want: recorder.Request{Verb: "update", Resource: "configmaps", Name: "x", Code: 409},
		},
		"DeleteCollection": {
			reason: "it is not the deletion of one object",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				return c.CoreV1().Secrets(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			},
			want: recorder.Request{Verb: "deletecollection", Resource: "secrets", Code: 200},
		},
		"Subresource": {
			reason: "a subresource has permissions of its own",
			send: func(ctx context.Context, c kubernetes.Interface, ns string) error {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
				_, _ = c.CoreV1().Pods(ns).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
				return nil
			},
			want: recorder.Request{Verb: "update", Resource: "pods", Subresource: "status", Name: "p", Code: 404},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			k.Apply(configMap("x"))
			cfg, rec := k.Record(k.Config)
			if err := tt.send(k.Context(), kubernetes.NewForConfigOrDie(cfg), k.Namespace); err != nil {
				t.Fatal(err)
			}
			tt.want.Namespace = k.Namespace
			if diff := cmp.Diff([]recorder.Request{tt.want}, rec.Requests()); diff != "" {
				t.Errorf("requests (-want +got), because %s:\n%s", tt.reason, diff)
			}
			if got, want := len(rec.Writes()) == 1, tt.want.IsWrite(); got != want {
				t.Errorf("a write: %v, want %v", got, want)
			}
		})
	}
}

// A request for a Namespace is cluster-scoped, although its path has the name where others have their namespace.
func TestNamespaceHasNoNamespace(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/v1/namespaces/shop":                     "get namespaces shop -> 0",
		"/api/v1/namespaces/shop/status":              "get namespaces/status shop -> 0",
		"/api/v1/namespaces/shop/configmaps/settings": "get configmaps shop/settings -> 0",
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example"+path, http.NoBody)
		if got := recorder.ParseRequest(req); got.String() != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestGeneratedName(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	cfg, rec := k.Record(k.Config)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}
	configMaps := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps(k.Namespace)
	cm, err := configMaps.Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err) // this proves that the response body was restored
	}
	if got := rec.Requests()[0].Name; got != cm.Name || cm.Name == "" {
		t.Errorf("the name is %q, want %q", got, cm.Name)
	}
}

// Watches and leader election of an idle operator are recorded separately.
func TestWatchesAndLeases(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	cfg, rec := k.Record(k.Config)
	c := kubernetes.NewForConfigOrDie(cfg)
	w, err := c.CoreV1().ConfigMaps(k.Namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}
	if _, err := c.CoordinationV1().Leases(k.Namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := rec.Requests(); len(got) != 0 {
		t.Errorf("ordinary requests: %v", got)
	}
	if got := rec.Watches(); len(got) != 1 || got[0].String() != "watch configmaps "+k.Namespace+"/ -> 200" {
		t.Errorf("watches: %v", got)
	}
	if got := rec.LeaseRequests(); len(got) != 1 || got[0].Name != "leader" {
		t.Errorf("leases: %v", got)
	}
	rec.Reset()
	if n := len(rec.Watches()) + len(rec.LeaseRequests()); n != 0 {
		t.Errorf("after Reset there are still %d", n)
	}
}

func TestWaitIdle(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	held := rest.CopyConfig(k.Config)
	arrived, released := make(chan struct{}), make(chan struct{})
	var answered atomic.Int64 // in nanoseconds of Unix time
	held.Wrap(func(server http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			close(arrived)
			<-released
			defer func() { answered.Store(time.Now().UnixNano()) }()
			return server.RoundTrip(req)
		})
	})
	cfg, rec := k.Record(held)
	done := make(chan error, 1)
	go func() {
		_, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps(k.Namespace).List(t.Context(), metav1.ListOptions{})
		done <- err
	}()
	<-arrived
	limited, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := rec.WaitIdle(limited, time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in the middle of a request: %v", err)
	}

	const quiet = 100 * time.Millisecond
	close(released)
	if err := rec.WaitIdle(t.Context(), quiet); err != nil {
		t.Error(err)
	}
	if still := time.Since(time.Unix(0, answered.Load())); still < quiet {
		t.Errorf("it was idle %v after the response, want at least %v", still, quiet)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An informer that waits for the existing objects is not idle, neither before the response of its watch nor after it.
func TestWaitIdleOfInformer(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	slow := rest.CopyConfig(k.Config)
	steps := make(chan struct{})
	slow.Wrap(func(server http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			<-steps
			resp, err := server.RoundTrip(req)
			if err == nil {
				resp.Body = &heldBody{ReadCloser: resp.Body, released: steps}
			}
			return resp, err
		})
	})
	cfg, rec := k.Record(slow)
	informer := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(cfg), 0,
		informers.WithNamespace(k.Namespace)).Core().V1().ConfigMaps().Informer()
	go informer.RunWithContext(t.Context())
	for _, when := range []string{"before the response", "before the objects"} {
		limited, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := rec.WaitIdle(limited, 100*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", when, err)
		}
		cancel()
		steps <- struct{}{}
	}
	if err := rec.WaitIdle(t.Context(), 100*time.Millisecond); err != nil {
		t.Error(err)
	}
	if !informer.HasSynced() {
		t.Error("idle before the informer has all objects")
	}
}

// heldBody is a body that can be read after a release.
type heldBody struct {
	io.ReadCloser
	released <-chan struct{}
	once     sync.Once
}

func (b *heldBody) Read(p []byte) (int, error) {
	b.once.Do(func() { <-b.released })
	return b.ReadCloser.Read(p)
}

// stopped is set for the process that TestWaitIdleOfStoppedProcess stops.
const stopped = "TESTKIT_RECORDER_STOPPED"

// A process that the machine does not run for longer than the quiet period is not idle.
func TestWaitIdleOfStoppedProcess(t *testing.T) {
	t.Parallel()
	if os.Getenv(stopped) != "" {
		waitForBusyClient(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWaitIdleOfStoppedProcess$")
	cmd.Env = append(os.Environ(), stopped+"=1", "GOMAXPROCS=1") // the machine runs all of its goroutines, or none
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for signal, next := syscall.SIGSTOP, syscall.SIGCONT; ; signal, next = next, signal {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%v: %s", err, &out)
			}
			return
		case <-time.After(150 * time.Millisecond): // longer than the quiet period
			_ = cmd.Process.Signal(signal) // it may have ended
		}
	}
}

// waitForBusyClient waits in vain for a client that sends a request every 10 ms.
func waitForBusyClient(t *testing.T) {
	t.Helper()
	rec := recorder.New()
	c := kubernetes.NewForConfigOrDie(rec.Wrap(&rest.Config{Host: "https://api.example", Transport: apiServer{}, QPS: -1}))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			_, _ = c.CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{})
			<-time.After(10 * time.Millisecond)
		}
	}()
	if err := rec.WaitIdle(ctx, 100*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a client sends requests: %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
