package testkit_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
)

// A violation makes an operator break a rule on a Widget. It returns nil when it is done.
type violation func(ctx context.Context, c client.Client, w *unstructured.Unstructured) error

// violations holds one for each oracle.
var violations = map[testkit.Oracle]violation{
	testkit.Forbidden: func(ctx context.Context, c client.Client, w *unstructured.Unstructured) error {
		secret := &corev1.Secret{ObjectMeta: newConfigMap(w.GetName()).ObjectMeta}
		secret.Namespace = w.GetNamespace()
		_ = c.Create(ctx, secret)
		return nil
	},
	testkit.Refused: func(ctx context.Context, c client.Client, w *unstructured.Unstructured) error {
		bad := newConfigMap("No_Name")
		bad.Namespace = w.GetNamespace()
		_ = c.Create(ctx, bad)
		return nil
	},
	testkit.InvalidStatus: func(ctx context.Context, c client.Client, w *unstructured.Unstructured) error {
		for _, at := range []string{"2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"} {
			before := w.DeepCopy()
			_ = unstructured.SetNestedSlice(w.Object, []any{map[string]any{
				"type": "Sinned", "status": "True", "reason": "Again", "message": "", "lastTransitionTime": at,
			}}, "status", "conditions")
			if err := c.Status().Patch(ctx, w, client.MergeFrom(before)); err != nil {
				return err
			}
		}
		return nil
	},
	testkit.SpecWritten: func(ctx context.Context, c client.Client, w *unstructured.Unstructured) error {
		before := w.DeepCopy()
		_ = unstructured.SetNestedField(w.Object, int64(7), "spec", "size")
		return c.Patch(ctx, w, client.MergeFrom(before))
	},
	testkit.Panic: func() violation {
		panicked := false
		return func(context.Context, client.Client, *unstructured.Unstructured) error {
			if !panicked {
				panicked = true
				panic("a bug")
			}
			return nil
		}
	}(),
	testkit.GoroutineLeak: func(context.Context, client.Client, *unstructured.Unstructured) error {
		go leakGoroutine(make(chan struct{}))
		return nil
	},
}

// leakGoroutine waits forever.
func leakGoroutine(never <-chan struct{}) { <-never }

// setupViolator is an operator that commits one violation and is correct otherwise.
func setupViolator(commit violation) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return ctrl.NewControllerManagedBy(mgr).For(newWidget("")).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				w := newWidget("")
				if err := c.Get(ctx, req.NamespacedName, w); err != nil || w.Object["status"] != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				if err := commit(ctx, c, w); err != nil {
					return reconcile.Result{}, err
				}
				before := w.DeepCopy()
				if err := setReady(w); err != nil {
					return reconcile.Result{}, err
				}
				return reconcile.Result{}, c.Status().Patch(ctx, w, client.MergeFrom(before))
			}))
	}
}

// Parameters of TestFailingOracle: the oracle to violate, and whether to switch it off.
const (
	whichSin   = "TESTKIT_TEST_SIN"
	confession = "TESTKIT_TEST_SIN_ON_PURPOSE"
)

func TestFailingOracle(t *testing.T) {
	onlyToFail(t)
	which := testkit.Oracle(os.Getenv(whichSin))
	var opts []testkit.Option
	if os.Getenv(confession) != "" {
		opts = append(opts, testkit.WithoutOracles("it is the point of the test", which))
	}
	k := testkit.New(t, opts...)
	op := k.Start(setupViolator(violations[which]))
	w := k.Apply(newWidget("orders"))
	k.Eventually(w, testkit.Ready())
	op.Stop()
}

func TestOracles(t *testing.T) {
	t.Parallel()
	wants := map[testkit.Oracle][]string{
		testkit.Forbidden: {
			`the operator's roles lack a right that it uses: apiGroups: [""], resources: ["secrets"], verbs: ["create"]`,
		},
		testkit.Refused: {"the API server refuses what the operator sends: create configmaps", "No_Name"},
		testkit.InvalidStatus: {
			"the lastTransitionTime of condition Sinned moved although its status stayed True", "Widget orders",
		},
		testkit.SpecWritten:   {"the operator changed the spec of Widget orders, which is the user's", "patch widgets"},
		testkit.Panic:         {"the operator panicked: a bug", "oracles_test.go"},
		testkit.GoroutineLeak: {"a goroutine of its is still there", "testkit_test.leakGoroutine", "oracles_test.go"},
	}
	for _, which := range testkit.Oracles() {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			args := []string{"-test.run=TestFailingOracle"}
			env := []string{meantToFail + "=1", whichSin + "=" + string(which)}
			out, err := rerunWith(t, args, env...)
			if err == nil {
				t.Error("it was not found")
			}
			contains(t, out, append(wants[which], string(which)+": ", "apply widgets.testkit.homeostat.dev orders -> 201")...)
			for _, other := range testkit.Oracles() {
				if other != which && strings.Contains(out, " "+string(other)+": ") {
					t.Errorf("%s reports a violation, too:\n%s", other, out)
				}
			}
			if out, err := rerunWith(t, args, append(env, confession+"=1")...); err != nil {
				t.Errorf("the violation was reported although the oracle was off: %v\n%s", err, out)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		option testkit.Option
		want   string
	}{
		"NoReason": {"a reason is required", testkit.WithoutOracles(" ", testkit.Forbidden), "says to the reader why"},
		"Unknown": {
			"a typing mistake", testkit.WithoutOracles("so that", "forbid"), `there is no oracle "forbid"; there are ["forbidden"`,
		},
	}
	for name, tt := range tests {
		if out := failing(t, func(fake testing.TB) { testkit.New(fake, tt.option) }); !strings.Contains(out, tt.want) {
			t.Errorf("%s prints %q, want %q, because %s", name, out, tt.want, tt.reason)
		}
	}
}

// An operator whose goroutines end with a delay has not leaked them.
func TestSlowGoroutineIsNoLeak(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Start(func(mgr manager.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			go func() {
				<-ctx.Done()
				<-time.After(500 * time.Millisecond)
			}()
			return nil
		}))
	})
}

// listBlocker is a transport that never responds to a list.
type listBlocker struct{ http.RoundTripper }

func (d listBlocker) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/secrets") {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return d.RoundTripper.RoundTrip(req)
}

// The metadata client leaves a goroutine behind with every stopped watch.
func TestStoppedMetadataWatchIsNoLeak(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	synced := make(chan bool)
	p := k.Start(func(mgr manager.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			configMaps := &metav1.PartialObjectMetadata{}
			configMaps.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			_, err := mgr.GetCache().GetInformer(ctx, configMaps)
			synced <- err == nil && mgr.GetCache().WaitForCacheSync(ctx)
			return err
		}))
	})
	if !<-synced {
		t.Error("the test watches nothing")
	}
	p.Stop()
}

// An operator that is stopped before its cache has synced has leaked nothing of its own.
func TestStopBeforeCacheSyncIsNoLeak(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	asked := make(chan error)
	p := k.Start(func(mgr manager.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
			if err == nil {
				_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
			}
			asked <- err
			return err
		}))
	}, testkit.WithTransport(func(next http.RoundTripper) http.RoundTripper { return listBlocker{next} }))
	if err := <-asked; err != nil {
		t.Error(err)
	}
	p.Stop()
}
