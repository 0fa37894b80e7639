package database_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: "config/crd", RBAC: "config/rbac", AddToScheme: v1.AddToScheme, Workloads: true,
		NoUnusedRules: true, AllowedUnusedRules: testkit.ProgramUnusedRules("databases.techoral.com", "dbsnapshots.techoral.com"),
		AdmissionPolicies: "config/access/fence.yaml",
	})
}

// start runs the operator of Databases in the test's namespace with its shipped permissions.
func start(k *testkit.K, opts ...testkit.StartOption) *testkit.Instance {
	return k.Run(database.New(database.Options{}), opts...)
}

// newDatabase returns the article's Database with another name.
// rareSchedule is February 29. The CronJob controller has the real time, so that a daily schedule would make a dump in the
// tests that run at its time of day.
const rareSchedule = "0 0 29 2 *"

func newDatabase(name string) *v1.Database {
	return &v1.Database{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.DatabaseSpec{
			Engine: v1.PostgreSQL, Version: "16", Storage: "1Gi", Replicas: new(int32(2)), BackupEnabled: new(true),
			Backup: v1.Backup{Schedule: rareSchedule},
		},
	}
}

// writes returns the write requests, without events.
func writes(op *testkit.Instance) []recorder.Request {
	var all []recorder.Request
	for _, r := range op.Recorder().Writes() {
		if r.Resource != "events" {
			all = append(all, r)
		}
	}
	return all
}

// waitIdle waits until the operator is idle.
func waitIdle(k *testkit.K, op *testkit.Instance) {
	const still = 300 * time.Millisecond
	k.Wait("rest", func(ctx context.Context) error { return op.Recorder().WaitIdle(ctx, still) })
}
