package copyrator_test

import (
	"bytes"
	"context"
	"embed"
	"errors"
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
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/versions"
	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

//go:embed config/crd config/rbac config/access/fence.yaml
var config embed.FS

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		copyrator.Program().Main()
	}
	shipped, err := manifests("config/crd", "config/rbac", "config/access")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	handler, err := conversion.Handler(versions.Conversion)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.Env{
		FS: shipped, CRDs: "config/crd", RBAC: "config/rbac", Conversion: handler,
		AddToScheme:   func(s *runtime.Scheme) error { return errors.Join(v1.AddToScheme(s), v2.AddToScheme(s)) },
		NoUnusedRules: true, AllowedUnusedRules: testkit.ProgramUnusedRules("copyrators.flant.com"),
		AdmissionPolicies: "config/access/fence.yaml",
	})
}

// manifests returns the shipped manifests, with the same permissions for Secrets as for ConfigMaps, as in
// config/with-secrets, and with the conversion of config/crd/kustomization.yaml.
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
			const one = "  - configmaps\n" // in a role
			content = bytes.ReplaceAll(content, []byte(one), []byte(one+"  - secrets\n"))
			const group = "\nspec:\n  group: flant.com\n" // in the definition
			all[name] = &fstest.MapFile{Data: bytes.Replace(content, []byte(group), []byte(group+
				"  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1]}}\n"), 1)}
		}
	}
	return all, nil
}

// cluster is the part of a control plane that belongs to one test: namespaces and rules with a common prefix.
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

// namespace creates a namespace and returns its name.
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

// accepting makes a namespace accept copies from these namespaces.
func accepting(from string) func(*corev1.Namespace) {
	return annotated("copyrator.flant.com/accept-from", from)
}

// rule returns a rule that copies the ConfigMaps with the label copyrator=true of its namespace to all of the test's
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

// hasData checks that a ConfigMap has exactly this data.
func hasData(data map[string]string) testkit.Check {
	return testkit.Match(fmt.Sprintf("data %v", data), func(c *corev1.ConfigMap) bool {
		return cmp.Equal(c.Data, data) && c.DeletionTimestamp == nil
	})
}

func hasValue(v string) testkit.Check { return hasData(map[string]string{"key": v}) }

// configMapRef returns an empty ConfigMap of that name.
func configMapRef(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// synced checks that a rule has exactly this number of copies, all up to date.
func synced(n int32) testkit.Check {
	return testkit.Match(fmt.Sprintf("%d copies, all synced", n), func(r *v1.CopyratorRule) bool {
		s := r.Status
		return s.Desired == n && s.Synced == n && s.Failed == 0 && s.ObservedGeneration == r.Generation
	})
}

func conflicts(n int32) testkit.Check {
	return testkit.Match(fmt.Sprintf("%d conflicts", n), func(r *v1.CopyratorRule) bool { return r.Status.Conflicts == n })
}

// writes lists the successful writes except those of events. A rejected attempt to create a copy, which finds a
// conflicting object, is none.
func (c *cluster) writes() []recorder.Request {
	var all []recorder.Request
	for _, r := range c.op.Recorder().Writes() {
		if r.Resource != "events" && r.Code < http.StatusBadRequest {
			all = append(all, r)
		}
	}
	return all
}

// waitIdle waits until the operator has sent nothing for a while.
func (c *cluster) waitIdle() {
	c.t.Helper()
	if err := c.op.Recorder().WaitIdle(c.Context(), 500*time.Millisecond); err != nil {
		c.t.Fatalf("the operator does not come to rest: %v", err)
	}
}

// expectNoWrites checks that do causes no writes.
func (c *cluster) expectNoWrites(why string, do func()) {
	c.t.Helper()
	c.waitIdle()
	before := len(c.writes())
	do()
	c.waitIdle()
	if more := c.writes()[before:]; len(more) > 0 {
		c.t.Errorf("%s: it writes %v", why, more)
	}
}

// expectNoWritesAfterRestart checks that a new process has nothing to write.
func (c *cluster) expectNoWritesAfterRestart() {
	c.t.Helper()
	c.waitIdle()
	c.op.Stop()
	c.start()
	c.waitIdle()
	if all := c.writes(); len(all) > 0 {
		c.t.Errorf("after a restart it writes %v", all)
	}
}

// waitGone waits until the object does not exist.
func (c *cluster) waitGone(o client.Object) {
	c.t.Helper()
	c.Eventually(o, testkit.Gone())
}
