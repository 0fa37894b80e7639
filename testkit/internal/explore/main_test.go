package explore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

const (
	// mutantVariable turns this test binary into the operator with this name.
	mutantVariable = "EXPLORE_TEST_MUTANT"
	// pythonOperators is the directory of the operators in Python.
	pythonOperators = "testdata/python"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(mutantVariable); name != "" {
		if err := runMutant(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.RunHelperProcess() // helper processes run in another directory, without the files below
	testkit.Main(m, testkit.Env{FS: manifests(), CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme})
}

// manifests returns those of the mutants and of the operators in Python.
func manifests() fstest.MapFS {
	all := fstest.MapFS{}
	add := func(from fs.FS, name, as string) {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			panic(err)
		}
		all[as] = &fstest.MapFile{Data: data}
	}
	err := fs.WalkDir(mutants.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			add(mutants.Files, name, name)
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	folder := os.DirFS(pythonOperators)
	add(folder, "crd.yaml", mutants.CRDs+"/pages.yaml")
	add(os.DirFS("testdata/crd"), "lamps.yaml", mutants.CRDs+"/lamps.yaml")
	roles, err := fs.Glob(folder, "*/rbac.yaml")
	if err != nil {
		panic(err)
	}
	for _, name := range roles {
		add(folder, name, mutants.RBAC+"/pages-"+path.Dir(name)+".yaml")
	}
	return all
}

// runMutant is the main function of an operator.
func runMutant(name string) error {
	m, ok := lookup(name)
	if !ok {
		return fmt.Errorf("there is no operator %s", name)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), mutants.AddToScheme(scheme)); err != nil {
		return err
	}
	ctrl.SetLogger(logr.Discard())
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{os.Getenv("NAMESPACE"): {}}},
	})
	if err != nil {
		return err
	}
	if err := m.Setup(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func lookup(name string) (mutants.Mutant, bool) {
	all := append(mutants.All(), mutants.CorrectTwins()...)
	i := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == name })
	if i < 0 {
		return mutants.Mutant{}, false
	}
	return all[i], true
}

func mutant(t *testing.T, name string) mutants.Mutant {
	t.Helper()
	m, ok := lookup(name)
	if !ok {
		t.Fatalf("there is no operator %s", name)
	}
	return m
}

// mutantOptions returns options for the operator with this name.
func mutantOptions(t *testing.T, name string) explore.Options {
	t.Helper()
	m := mutant(t, name)
	o := explore.Options{
		Opener: kitadapter.Open, Name: name, StopAtFailure: true, Timeout: testkit.DefaultTimeout, Parallel: 2, Seed: 1,
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(m.Setup, append(opts, testkit.WithConfig(k.ServiceAccount(m.ServiceAccount)))...)
		}),
	}
	for _, s := range m.Steps {
		o.Steps = append(o.Steps, kitadapter.Step(s.Name, s.Do))
	}
	return o
}

func run(t *testing.T, o explore.Options) *report.Report {
	t.Helper()
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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

// violationsOf returns the oracles of all violations, with their plans, as "plan: oracle".
func violationsOf(r *report.Report) []string {
	var all []string
	for _, run := range r.Failures() {
		for _, v := range run.Violations {
			all = append(all, run.Name+": "+v.Oracle)
		}
	}
	return all
}

func text(t *testing.T, r *report.Report) string {
	t.Helper()
	var b strings.Builder
	if err := report.WriteText(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
