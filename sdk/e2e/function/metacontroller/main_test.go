// Package metacontroller_test runs examples of Metacontroller, restated in Python, on the engine.
package metacontroller_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/sdk/function/metacontroller"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "testdata/crd", RBAC: "testdata/rbac", Workloads: true})
}

// operators starts the hooks of an example, and returns the operators of its manifest.
func operators(t *testing.T, example string) []*metacontroller.Operator {
	t.Helper()
	controllers, err := metacontroller.Load(filepath.Join("testdata", example+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	base := serve(t, "testdata", example+".py")
	var all []*metacontroller.Operator
	for _, c := range controllers {
		all = append(all, &metacontroller.Operator{Controller: c, Base: base, PurityChecks: 1})
	}
	return all
}

// serve runs a program with hooks in a folder until the end of the test, and returns its URL.
func serve(t *testing.T, folder, program string) string {
	t.Helper()
	cmd := exec.Command("python3", program, "0")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended otherwise
		_ = cmd.Wait()         // the error is that of the kill
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("waiting for the port of %s: %v", program, err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// sample returns the object in a file.
func sample(name string) *unstructured.Unstructured {
	data, err := os.ReadFile(filepath.Join("testdata", name+"-sample.yaml"))
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &u.Object); err != nil {
		panic(err)
	}
	return u
}

// set changes a field of an object.
func set(o *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err)
	}
}

// idle waits until the operator makes no requests.
func idle(k *testkit.K, op *testkit.Instance) {
	k.Wait("the operator to be idle", func(ctx context.Context) error {
		return op.Recorder().WaitIdle(ctx, 300*time.Millisecond)
	})
}
