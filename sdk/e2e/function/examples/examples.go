// Package examples runs the example operators in Python under the tests of operators in Go. Each has a package of its own,
// because a permission that no test of its package has used is reported.
package examples

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/sdk/function"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/gen"
)

// Folder is that of the examples, relative to the package of one of them.
const Folder = "../../../../python/examples/"

// Operator returns an example. Each call of its function is repeated, and both answers have to be equal.
func Operator(t *testing.T, name string) *function.Operator {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("the function needs Python: %v", err)
	}
	config, err := function.Load(filepath.Join(Folder, name, "operator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	library, err := filepath.Abs(Folder + "..")
	if err != nil {
		t.Fatal(err)
	}
	return &function.Operator{Config: config, PurityChecks: 1, Function: &function.Process{
		Command: []string{python, "reconcile.py"}, Dir: filepath.Join(Folder, name), Env: []string{"PYTHONPATH=" + library},
	}}
}

// Rest checks that an operator sends no request.
func Rest(k *testkit.K, op *testkit.Instance) {
	k.Wait("no request for 1 s", func(ctx context.Context) error { return op.Recorder().WaitIdle(ctx, time.Second) })
}

// Object returns an object of a kind that has no Go type here.
func Object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// Explore tries generated custom resources, which begin with a sample.
func Explore(t *testing.T, name, crd, sample string, opts ...gen.Option) {
	t.Helper()
	gen.Explore(t, Operator(t, name), gen.From(crd, sample), append(opts, gen.Seed(1), gen.Sequences(1), gen.Steps(10))...)
}

// UnusedRules returns the permissions of an example that its tests do not use. Owner are the references of its children.
func UnusedRules(owner string) map[string]string {
	const repeated = "patch events.events.k8s.io"
	owners := "update " + owner + "/finalizers"
	all := testkit.ProgramUnusedRules(owner)
	return map[string]string{owners: all[owners], repeated: all[repeated]}
}
