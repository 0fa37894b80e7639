package database_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/sdk/e2e/function/examples"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/gen"
)

const (
	name   = "database"
	folder = examples.Folder + name + "/"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: folder + "config/crd", RBAC: folder + "config/rbac", Workloads: true,
		NoUnusedRules: true, AllowedUnusedRules: examples.UnusedRules("databases.python.homeostat.dev"),
	})
}

func password() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "orders-db"}, StringData: map[string]string{"password": "change-me"},
	}
}

// The operator makes, changes and removes its children. When it is idle it sends no request.
func TestPermissions(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := k.Run(examples.Operator(t, name))
	database := func(backups bool) *unstructured.Unstructured {
		return examples.Object("python.homeostat.dev/v1", "Database", "a", map[string]any{
			"version": "16", "credentialsSecret": "orders-db", "backupEnabled": backups, "backupSchedule": "0 0 29 2 *",
		})
	}
	db := database(true)
	k.Apply(password())
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	examples.Rest(k, op)
	k.Apply(database(false))
	k.Eventually(&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "a-backup"}}, testkit.Gone())
	k.Delete(db)
	k.Eventually(db, testkit.Gone())
}

// The final state depends on the last specification only.
func TestPathIndependence(t *testing.T) {
	t.Parallel()
	examples.Explore(t, name, folder+"config/crd/databases.yaml", "testdata/sample.yaml",
		gen.BeforeRun(func(k *testkit.K) { k.Apply(password()) }),
		gen.AllowResidue("persistentvolumeclaims")) // the default of deletionPolicy keeps them
}
