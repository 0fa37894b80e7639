package clusterscoped_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// programVariable turns this test binary into the operator with this name.
const programVariable = "CLUSTERSCOPED_TEST_PROGRAM"

// programs are operators that watch all namespaces.
var programs = map[string]testkit.SetupFunc{
	"copier":  copier(copies, copierOptions{finalizer: true}),
	"stale":   copier(copies, copierOptions{finalizer: true, createOnly: true}),
	"default": copier(toDefault, copierOptions{finalizer: true}),
	"tenants": tenants(false, true),
	"record":  tenants(true, true),
}

// runProgram is the main function of an operator.
func runProgram(name string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := programs[name](mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

const letter = `
namespaces: [copies]
steps:
- name: write
  apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: letter}, data: {text: hello}}
  wait: {kind: ConfigMap, namespace: copies, name: 'copy-of-{namespace}', field: data.text, value: hello}
- name: edit
  patch: {kind: ConfigMap, name: letter, merge: {data: {text: bye}}}
`

// unnamed is the scenario of a user who has forgotten the namespace of the copies.
const unnamed = `
steps:
- name: write
  apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: letter}, data: {text: hello}}
`

const tenant = `
steps:
- name: create
  apply: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: '{namespace}-tenant'}, value: 1}
  wait: {kind: Namespace, name: '{namespace}-tenant', exists: true}
`

// exploredProgram explores a program with the given faults.
func exploredProgram(t *testing.T, name, steps string, faults ...string) *report.Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte(steps), 0o600); err != nil {
		t.Fatal(err)
	}
	script, err := scenario.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := explore.Options{
		Name: name, Opener: kitadapter.OpenClusterWide, HideShared: true, Faults: faults, Timeout: 10 * time.Second, Seed: 1,
		StepQuietPeriod: 100 * time.Millisecond,
		Subject: &explore.Command{
			Args: []string{os.Args[0]}, Env: []string{programVariable + "=" + name}, Folder: t.TempDir(),
			Target: func(*space.Space) (*rest.Config, error) { return rest.CopyConfig(cfg), nil },
		},
	}
	o.Script(script)
	x, err := explore.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := x.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Programs work in all namespaces of their runs, and are explored there.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		program, steps string
		tried          string // a plan that is tried
		want           string // a finding, or "" if there is none
	}{
		"Copier":  {"copier", letter, "drift-deleted/configmaps/$NAMESPACE-copies:copy-of-$NAMESPACE", ""},
		"Stale":   {"stale", letter, "drift-edited/configmaps/$NAMESPACE-copies:copy-of-$NAMESPACE", "end-state"},
		"Unnamed": {"copier", unnamed, "", "none/1: outside"},
		"Default": {"default", unnamed, "", "none/1: outside"},
		"Tenants": {"tenants", tenant, "drift-deleted/namespaces/$NAMESPACE-tenant", ""},
		"Record": {
			"record", tenant, "drift-deleted/namespaces/$NAMESPACE-tenant",
			"drift-deleted/namespaces/$NAMESPACE-tenant: end-state",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := exploredProgram(t, test.program, test.steps, "crash-after", "drift")
			var found []string
			tried := map[string]bool{"": true}
			for _, run := range r.Runs {
				tried[run.Name] = run.Outcome != report.Untried
				for _, v := range run.Violations {
					found = append(found, run.Name+": "+v.Oracle)
				}
			}
			if !tried[test.tried] || test.want == "" && len(found) > 0 || !strings.Contains(fmt.Sprint(found), test.want) {
				t.Errorf("found %v, want %q, with the plan %s:\n%s", found, test.want, test.tried, textOf(t, r))
			}
		})
	}
}

// An operator does not see the objects of other tests and explorations, also of other processes, by their names.
func TestForeignObjectsAreHidden(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	createTenant(k)
	r := exploredProgram(t, "tenants", tenant, "crash-after")
	if failures := r.Failures(); len(failures) > 0 {
		t.Errorf("%d runs failed:\n%s", len(failures), textOf(t, r))
	}
	var ns corev1.Namespace
	err := k.Client.Get(t.Context(), client.ObjectKey{Name: k.Namespace + "-tenant"}, &ns)
	if !apierrors.IsNotFound(err) {
		t.Errorf("an explored operator has created %s: %v", k.Namespace+"-tenant", err)
	}
}
