package copyrator_test

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

//go:embed config/crd config/rbac
var config embed.FS

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		copyrator.Program().Main()
	}
	shipped, err := manifests("config/crd", "config/rbac")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.Env{
		FS: shipped, CRDs: "config/crd", RBAC: "config/rbac", AddToScheme: v1.AddToScheme, NoUnusedRules: true,
		Unexercised: map[string]string{
			"create subjectaccessreviews.authorization.k8s.io": "metrics, which no test serves: what may a client do",
			"create tokenreviews.authentication.k8s.io":        "metrics, which no test serves: who is a client",
			"patch events":               "an event that repeats itself within minutes is counted up",
			"patch events.events.k8s.io": "an event that repeats itself within minutes is counted up",
			"update copyrators.flant.com/finalizers": "OwnerReferencesPermissionEnforcement asks for it; " +
				"the API server of the tests does not have that plugin on",
		},
	})
}

// manifests reads what is shipped, and lets Secrets be as ConfigMaps, as config/with-secrets does.
func manifests(folders ...string) (fs.FS, error) {
	all := fstest.MapFS{}
	for _, folder := range folders {
		entries, err := config.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			name := path.Join(folder, entry.Name())
			content, err := config.ReadFile(name)
			if err != nil {
				return nil, err
			}
			const one = "  - configmaps\n"
			all[name] = &fstest.MapFile{Data: bytes.ReplaceAll(content, []byte(one), []byte(one+"  - secrets\n"))}
		}
	}
	return all, nil
}

// cluster is a part of the control plane that one test has for itself: namespaces with a common prefix, and rules with
// names that begin so.
type cluster struct {
	*testkit.K

	t       *testing.T
	options copyrator.Options
	op      *testkit.Instance
}

// newCluster runs the operator for all namespaces and for the rules of this test. The operator's namespace is the test's.
func newCluster(t *testing.T, change ...func(*copyrator.Options)) *cluster {
	t.Helper()
	return clusterOn(t, testkit.New(t), change...)
}

func clusterOn(t *testing.T, k *testkit.K, change ...func(*copyrator.Options)) *cluster {
	t.Helper()
	c := &cluster{K: k, t: t, options: copyrator.Options{Namespace: k.Namespace, RuleName: k.Namespace + "-*", Secrets: true}}
	for _, f := range change {
		f(&c.options)
	}
	c.start()
	return c
}

func (c *cluster) start(opts ...testkit.StartOption) *testkit.Instance {
	c.op = c.Run(copyrator.New(c.options), append(opts, testkit.ClusterWide())...)
	return c.op
}

// namespace makes a namespace and returns its name.
func (c *cluster) namespace(name string, change ...func(*corev1.Namespace)) string {
	c.t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: c.Namespace + "-" + name, Labels: map[string]string{"of": c.Namespace},
	}}
	for _, f := range change {
		f(n)
	}
	c.Apply(n)
	c.t.Cleanup(func() { _ = c.Client.Delete(context.Background(), n) })
	return n.Name
}

func annotated(key, value string) func(*corev1.Namespace) {
	return func(n *corev1.Namespace) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key] = value
	}
}

// rule is one that copies the ConfigMaps with the label copyrator=true of its own namespace to all of the test's
// namespaces.
func (c *cluster) rule(name string, change ...func(*v1.CopyratorRule)) *v1.CopyratorRule {
	r := &v1.CopyratorRule{
		ObjectMeta: metav1.ObjectMeta{Name: c.Namespace + "-" + name, Namespace: c.Namespace},
		Rule: v1.Rule{
			RuleType: "configmap", Selector: v1.Selector{Labels: map[string]string{"copyrator": "true"}},
			TargetNamespaces: []string{c.Namespace + "*"},
		},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"copyrator": "true"}},
		Data:       map[string]string{"key": value},
	}
}

func secret(namespace, name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"copyrator": "true"}},
		Data:       map[string][]byte{"key": []byte(value)},
	}
}

// says is that a ConfigMap has exactly this data.
func says(data map[string]string) testkit.Check {
	return testkit.Match(fmt.Sprintf("data %v", data), func(c *corev1.ConfigMap) bool {
		return cmp.Equal(c.Data, data) && c.DeletionTimestamp == nil
	})
}

func value(v string) testkit.Check { return says(map[string]string{"key": v}) }

// at names a ConfigMap to look at.
func at(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// synced is that a rule has this many copies, and all there should be.
func synced(n int32) testkit.Check {
	return testkit.Match(fmt.Sprintf("%d copies, all synced", n), func(r *v1.CopyratorRule) bool {
		s := r.Status
		return s.Desired == n && s.Synced == n && s.Failed == 0 && s.ObservedGeneration == r.Generation
	})
}

func conflicts(n int32) testkit.Check {
	return testkit.Match(fmt.Sprintf("%d conflicts", n), func(r *v1.CopyratorRule) bool { return r.Status.Conflicts == n })
}

// writes lists the requests that have changed something, events apart. To find out what is in the way of a copy takes an
// attempt to make it, which is none.
func (c *cluster) writes() []recorder.Request {
	var all []recorder.Request
	for _, r := range c.op.Recorder().Writes() {
		if r.Resource != "events" && r.Code < http.StatusBadRequest {
			all = append(all, r)
		}
	}
	return all
}

// rest waits until the operator has sent nothing for a while.
func (c *cluster) rest() {
	c.t.Helper()
	if err := c.op.Recorder().WaitIdle(c.Context(), 500*time.Millisecond); err != nil {
		c.t.Fatalf("the operator does not come to rest: %v", err)
	}
}

// still checks that what is done causes no writes.
func (c *cluster) still(why string, do func()) {
	c.t.Helper()
	c.rest()
	before := len(c.writes())
	do()
	c.rest()
	if more := c.writes()[before:]; len(more) > 0 {
		c.t.Errorf("%s: it writes %v", why, more)
	}
}

// restart checks that a new process has nothing to write.
func (c *cluster) restart() {
	c.t.Helper()
	c.rest()
	c.op.Stop()
	c.start()
	c.rest()
	if all := c.writes(); len(all) > 0 {
		c.t.Errorf("after a restart it writes %v", all)
	}
}

// gone waits until there is nothing of that name.
func (c *cluster) gone(o client.Object) {
	c.t.Helper()
	c.Eventually(o, testkit.Gone())
}
