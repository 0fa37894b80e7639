package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

func TestNamespacePerTest(t *testing.T) {
	t.Parallel()
	a, b := testkit.New(t), testkit.New(t)
	if a.Namespace == b.Namespace {
		t.Fatalf("two tests share the namespace %s", a.Namespace)
	}
	a.Apply(newConfigMap("x"))
	var list corev1.ConfigMapList
	if err := b.Client.List(b.Context(), &list, client.InNamespace(b.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) > 0 {
		t.Errorf("the other test's namespace has %v", list.Items)
	}
}

// A test's namespace is deleted with all its contents, including those with finalizers, so that a failed test does not
// affect others.
func TestNamespaceIsDeletedAfterTest(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var namespace, role string
	t.Run("inner", func(t *testing.T) {
		inner := testkit.New(t)
		namespace = inner.Namespace
		held := newWidget("held")
		held.SetFinalizers([]string{"testkit.homeostat.dev/never-removed"})
		inner.Apply(held)
		inner.Start(setupWidgets)
		inner.Eventually(held, testkit.Ready())
		role = inner.Apply(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: inner.Namespace}}).GetName()
	})
	began := time.Now()
	k.Eventually(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, testkit.Gone())
	t.Logf("the namespace was gone %v after its test", time.Since(began))
	k.Eventually(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}}, testkit.Gone())
	var roles rbacv1.ClusterRoleList
	if err := k.Client.List(k.Context(), &roles); err != nil {
		t.Fatal(err)
	}
	for _, r := range roles.Items {
		if strings.HasPrefix(r.Name, namespace) {
			k.Eventually(&r, testkit.Gone()) // the roles of its operator
		}
	}
}

func TestPrivate(t *testing.T) {
	t.Parallel()
	shared, private := testkit.New(t), testkit.New(t, testkit.Private())
	if shared.Config.Host == private.Config.Host {
		t.Error("the private control plane is the shared one")
	}
	private.Apply(newWidget("w")) // it has the same definitions
}

func TestNewWithoutMain(t *testing.T) {
	t.Parallel()
	out, err := rerun(t, "TestNamespacePerTest", withoutMain+"=1")
	if err == nil {
		t.Error("the tests passed")
	}
	contains(t, out, "testkit.New needs testkit.Main")
}

func TestExistingCluster(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	data, err := cluster.Kubeconfig(k.Config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := rerun(t, "TestStartRecordsRequests|TestPrivate", "TESTKIT_KUBECONFIG="+file)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	contains(t, out, "PASS: TestStartRecordsRequests", "SKIP: TestPrivate")
	var list corev1.NamespaceList
	if err := k.Client.List(k.Context(), &list); err != nil {
		t.Fatal(err)
	}
	left := func(ns corev1.Namespace) bool { return strings.HasPrefix(ns.Name, "teststart") }
	if slices.ContainsFunc(list.Items, left) {
		t.Errorf("a namespace is left in the cluster: %v", list.Items)
	}
}

// rerun runs tests of this binary in a separate process.
func rerun(t *testing.T, tests string, env ...string) (string, error) {
	t.Helper()
	return rerunWith(t, []string{"-test.v", "-test.run=^(" + tests + ")$"}, env...)
}

func rerunWith(t *testing.T, args []string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func BenchmarkNew(b *testing.B) {
	testkit.New(b) // starts the control plane
	for b.Loop() {
		testkit.New(b)
	}
}

// BenchmarkNamespace measures the cost of a test's namespace from its creation to its removal.
func BenchmarkNamespace(b *testing.B) {
	k := testkit.New(b)
	for b.Loop() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
		if err := k.Client.Create(b.Context(), ns); err != nil {
			b.Fatal(err)
		}
		k.Delete(ns)
		k.Eventually(ns, testkit.Gone())
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	cm := newConfigMap("x")
	cm.Data = map[string]string{"a": "1"}
	if got := k.Apply(cm); got != client.Object(cm) || cm.UID == "" || cm.Namespace != k.Namespace {
		t.Errorf("the object was not filled in: %v", got)
	}
	again := newConfigMap("x")
	again.Data = map[string]string{"b": "2"}
	k.Apply(again)
	if again.UID != cm.UID || again.Data["b"] != "2" {
		t.Errorf("the object was not changed: %v", again)
	}
	w := newWidget("w")
	k.Apply(w)
	if size, _, _ := unstructuredInt(w, "spec", "size"); size != 0 {
		t.Errorf("the server defaulted a field of an absent parent: %d", size)
	}
}

func TestUpdateRetriesOnConflict(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	cm := newConfigMap("x")
	k.Apply(cm)
	calls := 0
	k.Update(cm, func() {
		if calls++; calls == 1 { // another client is faster
			other := newConfigMap("x")
			other.Namespace = k.Namespace
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"other":"1"}}`))
			if err := k.Client.Patch(k.Context(), other, patch); err != nil {
				t.Error(err)
			}
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data["ours"] = "1"
	})
	if calls != 2 || cm.Data["ours"] != "1" || cm.Data["other"] != "1" {
		t.Errorf("after %d calls: %v", calls, cm.Data)
	}
}

func TestUpdateStatus(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	k.Apply(pod)
	k.UpdateStatus(pod, func() { pod.Status.Phase = corev1.PodFailed })
	fresh := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	k.Get(fresh)
	if fresh.Status.Phase != corev1.PodFailed {
		t.Errorf("the phase is %q", fresh.Status.Phase)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	bad := newWidget("w")
	bad.Object["spec"] = map[string]any{"size": int64(0)}
	contains(t, k.Refused(bad), "spec.size", "should be greater than or equal to 1")
	output := failing(t, func(fake testing.TB) { testkit.New(fake).Refused(newWidget("w")) })
	contains(t, output, "it should have been refused")
	k.Apply(newWidget("twice"))
	contains(t, failing(t, func(fake testing.TB) {
		twice := newWidget("twice")
		twice.SetNamespace(k.Namespace)
		testkit.New(fake).Refused(twice)
	}), "refused for another reason")
}

func TestDeleteMissingObject(t *testing.T) {
	t.Parallel()
	output := failing(t, func(fake testing.TB) { testkit.New(fake).Delete(newConfigMap("nothing")) })
	contains(t, output, "deleting *v1.ConfigMap nothing", "not found")
}

func TestServiceAccount(t *testing.T) {
	t.Parallel()
	k, other := testkit.New(t), testkit.New(t)
	cfg := k.ServiceAccount("widget-operator")
	account, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reason string
		list   client.ObjectList
		in     string
		want   bool
	}{
		"Granted":          {"the role has it", &corev1.ConfigMapList{}, k.Namespace, true},
		"NotGranted":       {"no role has it", &corev1.SecretList{}, k.Namespace, false},
		"AnotherNamespace": {"it is another test's", &corev1.ConfigMapList{}, other.Namespace, false},
		"ClusterWide":      {"the kind has no namespace", &corev1.NodeList{}, "", true},
	}
	for name, tt := range tests {
		err := account.List(k.Context(), tt.list, client.InNamespace(tt.in))
		if got := err == nil; got != tt.want || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: allowed %v, want %v, because %s: %v", name, got, tt.want, tt.reason, err)
		}
	}
	contains(t, failing(t, func(fake testing.TB) { testkit.New(fake).ServiceAccount("unknown") }),
		`finding ServiceAccount "unknown": the files have widget-operator`)
}
