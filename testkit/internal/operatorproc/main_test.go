package operatorproc_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
)

// This binary is also the parent of an operator, which a test kills.
const (
	roleVariable = "INCARNATION_TEST_ROLE"
	roleParent   = "parent"
)

// pythonOperators is where the operators in Python are, each in a folder.
const pythonOperators = "../explore/testdata/python"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == roleParent {
		beParent()
	}
	environment.RunHelperProcess() // in a process that runs elsewhere, and so finds no file
	testkit.Main(m, testkit.Env{FS: manifests(), CRDs: "crd", RBAC: "rbac"})
}

// manifests collects the definition and the roles of all operators.
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
