// Package versions_test replaces the program of a released operator by one that serves another version of its kind, and
// goes back.
package versions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
	"github.com/homeostat-dev/homeostat/testkit/upgrade"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{Private: true}) }

const (
	namespace = "copyrator-operator" // of the shipped manifests
	live      = 50                   // rules
	crashes   = 6                    // of each program
)

// release is a version of the operator.
type release struct {
	*sandbox.Project

	program string
	args    []string
}

type upgrades struct {
	*testkit.K

	t       *testing.T
	random  *rand.Rand
	deleted atomic.Int64 // copies
}

// The operator of the previous release is replaced by the present one and this one by the former, with 50 rules, while
// programs crash at random requests and clients of v1 and v2 change rules. No field of a rule is lost, and no copy is
// deleted.
// A release with v2 that comes back finds what only v2 expresses.
func TestUpgradeAndDowngrade(t *testing.T) {
	t.Parallel()
	former := programs.PreviousRelease{Released: "../../released", Notice: func(s string) { fmt.Fprintln(os.Stderr, s) }}
	project, err := former.Project(t.Context(), "copyrator", "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if project == nil {
		t.Skip("the history of this clone does not have the released commit: git fetch --unshallow gets it")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	k := testkit.New(t, testkit.Private(), testkit.WithoutOracles("programs crash", testkit.Oracles()...))
	u := &upgrades{K: k, t: t, random: rand.New(rand.NewPCG(seed, 0))}
	u.Timeout = 3 * time.Minute
	address := freeAddress(t)
	before, after := u.release(project), u.release(u.load("../../../operators/copyrator"),
		"--webhook-bind-address="+address, "--webhook-service="+namespace+"/copyrator-webhook")

	u.install(before, "")
	u.createSources()
	op := u.start(before, 0)
	for i := range live {
		u.Apply(u.rule(i))
	}
	u.waitReady()
	u.watchCopies()
	want := u.read("v1")
	op.Kill()

	// The definition is changed while the former program crashes, then the new one does.
	u.crash(before, want)
	u.install(after, address)
	u.crash(after, want)
	op = u.start(after, 0)
	u.waitReady()
	u.expect("v1", want)
	u.changeInV2(want)
	u.waitReady()
	u.expect("v1", want)
	wantV2 := u.read("v2")
	op.Kill()
	u.crash(after, nil)

	u.install(before, "")
	u.crash(before, nil)
	op = u.start(before, 0)
	u.waitReady()
	u.expect("v1", want)
	op.Kill()

	u.install(after, address)
	op = u.start(after, 0)
	u.waitReady()
	u.expect("v1", want)
	u.expect("v2", wantV2)
	op.Stop()
	if n := u.deleted.Load(); n > 0 {
		t.Errorf("%d copies were deleted", n)
	}
}

func (u *upgrades) load(dir string) *sandbox.Project {
	u.t.Helper()
	project, err := sandbox.Load(u.t.Context(), dir)
	if err != nil {
		u.t.Fatal(err)
	}
	return project
}

func (u *upgrades) release(project *sandbox.Project, args ...string) release {
	u.t.Helper()
	program, err := project.Build(u.t.Context())
	if err != nil {
		u.t.Fatal(err)
	}
	return release{project, program, append([]string{"--namespace=" + namespace, "--secrets=false"}, args...)}
}

// install applies the manifests of a release. The API server calls the program at the address for its Service.
func (u *upgrades) install(r release, address string) {
	u.t.Helper()
	u.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for _, o := range r.Objects {
		o = o.DeepCopy()
		switch o.GetKind() {
		case "CustomResourceDefinition":
			u.replaceDefinition(o)
			continue
		case "Service":
			o.SetAnnotations(map[string]string{cluster.AddressAnnotation: address})
		}
		u.Apply(o)
	}
}

// replaceDefinition replaces the specification of the definition, as kubectl apply does, except for the authority.
func (u *upgrades) replaceDefinition(want *unstructured.Unstructured) {
	u.t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(want.GroupVersionKind())
	err := u.Client.Get(u.t.Context(), client.ObjectKeyFromObject(want), crd)
	if client.IgnoreNotFound(err) != nil {
		u.t.Fatal(err)
	}
	if err != nil {
		u.Apply(want)
	} else {
		u.Update(crd, func() { crd.Object["spec"] = want.DeepCopy().Object["spec"] })
	}
	u.Wait("v1 to be served", func(ctx context.Context) error { return u.Client.List(ctx, list("v1")) })
}

// start runs a program with the permissions of its release. It loses all requests after n of them, unless n is 0.
func (u *upgrades) start(r release, n int64) *testkit.Instance {
	u.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "copyrator-operator"}}
	token := &authenticationv1.TokenRequest{}
	if err := u.Client.SubResource("token").Create(u.Context(), account, token); err != nil {
		u.t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(u.Config)
	cfg.BearerToken = token.Status.Token
	options := []testkit.StartOption{testkit.WithConfig(cfg), testkit.ClusterWide()}
	crashed := make(chan struct{})
	if n > 0 {
		options = append(options, testkit.WithTransport(after(n, crashed)))
	}
	op := u.StartProgram(testkit.Program{Args: append([]string{
		r.program, "--kubeconfig={kubeconfig}", "--health-probe-bind-address=0", "--metrics-bind-address=0",
	}, r.args...)}, options...)
	if n > 0 {
		select {
		case <-crashed:
		case <-time.After(u.Timeout):
			u.t.Fatalf("the program did not send request %d", n)
		}
		op.Kill()
	}
	return op
}

// after returns a transport that loses all requests after a number of them.
func after(n int64, crashed chan struct{}) func(http.RoundTripper) http.RoundTripper {
	var sent atomic.Int64
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			switch i := sent.Add(1); {
			case i < n:
				return next.RoundTrip(req)
			case i == n:
				close(crashed)
			}
			return nil, errors.New("the process has crashed")
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// crash runs a program several times, which crashes at a random request. Before each run a client of v1 changes all rules,
// so that the program has work, and the fields that are wanted, if they are given.
func (u *upgrades) crash(r release, want upgrade.Objects) {
	u.t.Helper()
	for range crashes {
		if want != nil {
			value := strconv.Itoa(u.random.IntN(1000))
			for i := range live {
				o := u.rule(i)
				u.Update(o, func() { set(o, value, "labels", "add", "round") })
				set(want[client.ObjectKeyFromObject(o).String()], value, "labels", "add", "round")
			}
		}
		u.start(r, 3+u.random.Int64N(60))
	}
}

// changeInV2 lets a client of v2 change half of the rules, and create selectors that v1 has another form of. The wanted
// fields of v1 become those that a client of v1 reads.
func (u *upgrades) changeInV2(want upgrade.Objects) {
	u.t.Helper()
	u.Wait("the conversion", func(ctx context.Context) error { return u.Client.List(ctx, list("v2")) })
	for i := 0; i < live; i += 2 {
		o := object("v2", u.rule(i).GetName())
		u.Update(o, func() {
			set(o, "yes", "spec", "labels", "add", "v2")
			set(o, map[string]any{
				"matchLabels": map[string]any{"rule": o.GetName()},
				"matchExpressions": []any{
					map[string]any{"key": "copied", "operator": "In", "values": []any{"yes", "always"}},
					map[string]any{"key": "absent", "operator": "DoesNotExist"},
				},
			}, "spec", "source", "selector")
		})
		fields := want[client.ObjectKeyFromObject(o).String()]
		set(fields, "yes", "labels", "add", "v2")
		set(fields, "!absent,copied in (always,yes),rule="+o.GetName(), "selector")
	}
}

func set(o *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}

// createSources creates a source for each rule, and the namespaces of the copies.
func (u *upgrades) createSources() {
	u.t.Helper()
	for _, name := range []string{"target-a", "target-b"} {
		u.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for i := range live {
		name := u.rule(i).GetName()
		u.Apply(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Labels: map[string]string{"rule": name, "copied": "yes"},
			},
			Data: map[string]string{"key": name},
		})
	}
}

// rule returns a rule of v1. Rules have all forms of selectors and names.
func (u *upgrades) rule(i int) *unstructured.Unstructured {
	o := object("v1", fmt.Sprintf("rule-%02d", i))
	name := o.GetName()
	o.Object["ruleType"] = []any{"configmap", "ConfigMap"}[i%2]
	o.Object["selector"] = []any{
		map[string]any{"rule": name}, "rule==" + name, " rule in ( " + name + " ), copied!=no ", "rule=" + name + ",!absent",
	}[i%4]
	switch i % 3 {
	case 0:
		o.Object["namespace"] = namespace
	case 1:
		o.Object["namespace"] = []any{"elsewhere", namespace, namespace}
		o.Object["namespaces"] = []any{"elsewhere"}
	}
	o.Object["targetNamespaces"] = []any{"target-b", "target-a"}
	o.Object["excludeNamespaces"] = []any{"target-c"}
	if i%5 == 0 {
		o.Object["orphanPolicy"] = "Keep"
		o.Object["dataKeys"] = map[string]any{"include": []any{"k*", "key"}}
	}
	return o
}

var rules = schema.GroupKind{Group: "flant.com", Kind: "CopyratorRule"}

func object(version, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(rules.Group + "/" + version)
	o.SetKind(rules.Kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func list(version string) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetAPIVersion(rules.Group + "/" + version)
	l.SetKind(rules.Kind + "List")
	return l
}

// read returns all rules in a version.
func (u *upgrades) read(version string) upgrade.Objects {
	u.t.Helper()
	var all upgrade.Objects
	u.Wait("rules in "+version, func(ctx context.Context) (err error) {
		all, err = upgrade.Read(ctx, u.Client, rules.WithVersion(version))
		return err
	})
	return all
}

// expect reports each field of the rules that is lost. Clients change rules, so that copies have new contents.
func (u *upgrades) expect(version string, want upgrade.Objects) {
	u.t.Helper()
	got := u.read(version)
	for _, line := range want.Lost(got, "status.digest", "status.lastSyncTime") {
		u.t.Errorf("in %s: %s", version, line)
	}
	if len(got) != live {
		u.t.Errorf("there are %d rules in %s, want %d", len(got), version, live)
	}
}

// waitReady waits until all rules are reconciled and all of their copies exist.
func (u *upgrades) waitReady() {
	u.t.Helper()
	for i := range live {
		u.Eventually(u.rule(i), testkit.Ready(), testkit.Match("two copies", func(o *unstructured.Unstructured) bool {
			synced, _, _ := unstructured.NestedInt64(o.Object, "status", "synced")
			observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			return synced == 2 && observed == o.GetGeneration()
		}))
	}
}

// watchCopies counts deleted copies until the end of the test.
func (u *upgrades) watchCopies() {
	u.t.Helper()
	c, err := client.NewWithWatch(u.Config, client.Options{Scheme: u.Client.Scheme()})
	if err != nil {
		u.t.Fatal(err)
	}
	copies := client.MatchingLabels{"app.kubernetes.io/managed-by": "copyrator"}
	events, err := c.Watch(u.t.Context(), &corev1.ConfigMapList{}, copies)
	if err != nil {
		u.t.Fatal(err)
	}
	go func() {
		for event := range events.ResultChan() {
			if event.Type == "DELETED" {
				u.deleted.Add(1)
			}
		}
	}()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
