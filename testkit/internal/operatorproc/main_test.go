package operatorproc_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
)

// With roleVariable set to roleParent, this binary is the parent of an operator.
const (
	roleVariable = "OPERATORPROC_TEST_ROLE"
	roleParent   = "parent"
)

// pythonOperators is the directory of the operators in Python.
const pythonOperators = "../explore/testdata/python"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == roleParent {
		runParent()
	}
	environment.RunHelperProcess() // helper processes run in another directory, without the files below
	testkit.Main(m, testkit.Env{FS: manifests(), CRDs: "crd", RBAC: "rbac"})
}

// manifests returns the definition and the roles of all operators.
func manifests() fstest.MapFS {
	files, err := filepath.Glob(filepath.Join(pythonOperators, "*", "rbac.yaml"))
	if err != nil {
		panic(err)
	}
	sources := map[string]string{"crd/crd.yaml": filepath.Join(pythonOperators, "crd.yaml")}
	for _, file := range files {
		sources["rbac/"+filepath.Base(filepath.Dir(file))+".yaml"] = file
	}
	all := fstest.MapFS{}
	for name, file := range sources {
		data, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		all[name] = &fstest.MapFile{Data: data}
	}
	return all
}
