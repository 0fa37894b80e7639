package team

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/external"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "testdata/crd", AddToScheme: AddToScheme})
}

func newTeam(k *testkit.K, suffix string, pods int64) *Team {
	return &Team{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + suffix}, Spec: Spec{Group: "developers", Pods: pods}}
}

// The steps of the scenarios.
var (
	create = chaos.Step{Name: "create", Do: func(k *testkit.K) { k.Apply(newTeam(k, "-a", 10)) }}
	resize = chaos.Step{Name: "resize", Do: func(k *testkit.K) { k.Apply(newTeam(k, "-a", 20)) }}
	take   = chaos.Step{Name: "take a foreign namespace", Do: func(k *testkit.K) { k.Apply(newTeam(k, "-taken", 10)) }}
)

// variant changes the operator of a run, to plant a bug.
type variant func(op *sdk.Operator[*Team], url string) *sdk.Operator[*Team]

// sweep tries faults on the operator. Its teams have the prefix of the run, so that runs of other processes share the
// control plane.
func sweep(t *testing.T, scenario chaos.Scenario, faults chaos.Faults, change variant, opts ...chaos.Option) {
	var registries sync.Map // by namespace
	each := chaos.Each(func(k *testkit.K) testkit.Runnable {
		r := newRegistry()
		registries.Store(k.Namespace, r)
		url := k.External(r, r.state).URL
		op := New(HTTPRegistry(url), func(name types.NamespacedName) bool { return strings.HasPrefix(name.Name, k.Namespace) })
		if change != nil {
			op = change(op, url)
		}
		return op
	})
	chaos.Sweep(t, each, scenario, faults, append(opts,
		chaos.WithStartOptions(testkit.ClusterWide()),
		chaos.BeforeRun(func(k *testkit.K) {
			k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-taken"}})
		}),
		chaos.Check("registered teams", func(k *testkit.K) string {
			r, _ := registries.Load(k.Namespace)
			return r.(*registry).stray(k)
		}),
		chaos.Invariant("ready teams", func(objects []client.Object) string {
			for _, o := range objects {
				if t, ok := o.(*Team); ok && t.Status.ID == "" && conditions.IsTrue(t, conditions.Ready) {
					return t.Name + " is ready and not registered"
				}
				if q, ok := o.(*corev1.ResourceQuota); ok && isForeign(q.Namespace, objects) {
					return "a quota is in a foreign namespace"
				}
			}
			return ""
		}))...)
}

// isForeign reports whether a namespace exists that no Team owns.
func isForeign(namespace string, objects []client.Object) bool {
	return slices.ContainsFunc(objects, func(o client.Object) bool {
		_, is := o.(*corev1.Namespace)
		return is && o.GetName() == namespace && metav1.GetControllerOf(o) == nil
	})
}

// All faults are tried on the shared control plane, with those of the registry.
func TestFaults(t *testing.T) {
	t.Parallel()
	sweep(t, chaos.Scenario{create, resize, take}, chaos.All, nil)
}

// bugs are faulty operators, with the faults that find them.
var bugs = map[string]struct {
	fault string
	want  string
	plant variant
}{
	"IDLost": {"crash-after/external-post", "end-state:", func(op *sdk.Operator[*Team], url string) *sdk.Operator[*Team] {
		return New(onceRegistry{HTTPRegistry(url)}, op.Selects)
	}},
	"RegisteredTwice": {
		"external-lost/external-post", "end-state:",
		func(op *sdk.Operator[*Team], url string) *sdk.Operator[*Team] {
			return New(repeatingRegistry{HTTPRegistry(url)}, op.Selects)
		},
	},
	"NotDeregistered": {"", "registered teams: ", func(op *sdk.Operator[*Team], _ string) *sdk.Operator[*Team] {
		op.Finalize = nil
		return op
	}},
	"ChildrenBeforeNamespace": {
		"", "a quota is in a foreign namespace",
		func(op *sdk.Operator[*Team], url string) *sdk.Operator[*Team] {
			op.Reconcile = func(ctx context.Context, p *sdk.Pass[*Team]) error {
				ns := sdk.Apply(p, namespace(p.Object))
				sdk.Apply(p, quota(p.Object))
				if ns.Exists() {
					register(ctx, p, HTTPRegistry(url))
				}
				return nil
			}
			return op
		},
	},
	"ChildrenInForeignNamespace": {
		"foreign-created/namespaces", "foreign: the operator created an object in namespaces/",
		func(op *sdk.Operator[*Team], url string) *sdk.Operator[*Team] {
			op.Reconcile = func(ctx context.Context, p *sdk.Pass[*Team]) error {
				sdk.Apply(p, namespace(p.Object))
				sdk.Apply(p, quota(p.Object))
				register(ctx, p, HTTPRegistry(url))
				return nil
			}
			return op
		},
	},
	"ReadyTooEarly": {"", "is ready and not registered", func(op *sdk.Operator[*Team], url string) *sdk.Operator[*Team] {
		op.Reconcile = func(ctx context.Context, p *sdk.Pass[*Team]) (err error) {
			if ns := sdk.Apply(p, namespace(p.Object)); !ns.Exists() {
				return nil
			}
			if p.Object.Status.Key == "" {
				p.Object.Status.Key = string(p.Object.UID)
				return nil
			}
			p.Object.Status.ID, err = HTTPRegistry(url).Register(ctx, p.Object.Status.Key, p.Object.Name)
			return err
		}
		return op
	}},
}

// onceRegistry takes a key that the registry knows for a success, and does not learn the ID.
type onceRegistry struct{ HTTPRegistry }

func (r onceRegistry) Register(ctx context.Context, key, name string) (string, error) {
	header := http.Header{"Idempotency-Key": {key}, "If-None-Match": {"*"}}
	id, err := r.send(ctx, http.MethodPost, "/teams?name="+name, header)
	if errors.Is(err, external.ErrExists) {
		return "unknown", nil
	}
	return id, err
}

// repeatingRegistry sends another key with each request.
type repeatingRegistry struct{ HTTPRegistry }

func (r repeatingRegistry) Register(ctx context.Context, key, name string) (string, error) {
	return r.HTTPRegistry.Register(ctx, key+time.Now().Format("-150405.000000000"), name)
}

// Each planted bug is found. The sweeps run in child processes, and the test checks their output.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	const variable = "TESTKIT_PLANTED_BUG"
	if bug, ok := bugs[os.Getenv(variable)]; ok {
		fault, _, _ := strings.Cut(bug.fault, "/")
		if fault == "" {
			fault = chaos.Down // the runs without a fault find it
		}
		step := create
		if os.Getenv(variable) == "ChildrenBeforeNamespace" {
			step = take
		}
		sweep(t, chaos.Scenario{step}, chaos.Faults{fault}, bug.plant,
			chaos.Timeout(10*time.Second), chaos.QuietPeriod(300*time.Millisecond))
		return
	}
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestPlantedBugs$/"+bug.fault)
			cmd.Env = append(os.Environ(), variable+"="+name)
			out, err := cmd.CombinedOutput()
			if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(out), bug.want) {
				t.Errorf("the sweep ends with %v, and its output should have %q:\n%s", err, bug.want, out)
			}
		})
	}
}
