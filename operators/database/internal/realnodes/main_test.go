package realnodes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

// lease is longer than kubelet may wait for a processor, which it shares with database servers.
const lease = 10 * time.Second

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		CRDs: "../../config/crd", RBAC: "../../config/rbac", AddToScheme: v1.AddToScheme,
		AdmissionPolicies: "../../config/access/fence.yaml",
		Real: &testkit.RealNodes{
			Count: 3, Images: []string{"../../../../build/images-base"}, Lease: lease, RestartBackoff: time.Second,
		},
	})
}

// A world has the operators, and Databases of one engine.
type world struct {
	*testkit.K

	t      *testing.T
	engine engine
}

// start runs the operators on real nodes.
func start(t *testing.T, opts ...testkit.Option) *testkit.K {
	t.Helper()
	k := testkit.New(t, opts...)
	k.Timeout = 5 * time.Minute // the servers share the processors with other tests
	k.Run(database.New(database.Options{}))
	k.Run(database.NewRoles())
	k.Run(database.NewSnapshots(database.Options{}))
	return k
}

// forEngines runs a test with each engine.
func forEngines(t *testing.T, test func(w *world)) {
	t.Parallel()
	for _, e := range engines {
		t.Run(string(e.name), func(t *testing.T) {
			t.Parallel()
			test(&world{K: start(t), t: t, engine: e})
		})
	}
}

// database returns a Database. Its schedule is February 29, so that the time of day does not matter.
func (w *world) database(name string, replicas int32) *v1.Database {
	return &v1.Database{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.DatabaseSpec{
			Engine: w.engine.name, Version: w.engine.version, Storage: "1Gi", Replicas: &replicas, BackupEnabled: new(true),
			Backup: v1.Backup{Schedule: "0 0 29 2 *"},
		},
	}
}

func members(n int32) testkit.Check {
	return testkit.Match("readyReplicas", func(db *v1.Database) bool { return db.Status.ReadyReplicas == n })
}

func pod(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// clientPod returns a pod with the image of a database and its Secret in the environment, as an application has it.
func (w *world) clientPod(db *v1.Database, name string, command ...string) *corev1.Pod {
	var env []corev1.EnvVar
	for _, key := range []string{"host", "port", "database", "username", "password", "uri"} {
		env = append(env, corev1.EnvVar{Name: strings.ToUpper(key), ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: desired.CredentialsName(db)}, Key: key,
			},
		}})
	}
	p := pod(name)
	p.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{
			Name: "client", Image: db.Status.Image, Command: command, Env: env,
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}},
		}},
	}
	return p
}

// client starts an application of a database.
func (w *world) client(db *v1.Database) {
	w.t.Helper()
	w.clientOn(db, "")
}

// clientOn starts an application of a database on a node, or on any if it is "".
func (w *world) clientOn(db *v1.Database, node string) {
	w.t.Helper()
	app := w.clientPod(db, db.Name+"-client", "sleep", "infinity")
	app.Spec.NodeName = node
	w.Apply(app)
	w.Eventually(app, testkit.Ready())
	w.reach(db)
}

// reach waits until the endpoint of a ready database accepts connections: the network may lag behind the operator.
func (w *world) reach(db *v1.Database) {
	w.t.Helper()
	w.Wait("the endpoint reaches the database", func(context.Context) error {
		_, err := w.shell(db, patiently(w.engine.remote), "SELECT 1")
		return err
	})
}

// shell runs a script in the client of a database.
func (w *world) shell(db *v1.Database, script string, args ...string) (string, error) {
	argv := append([]string{"bash", "-euo", "pipefail", "-c", script, "client"}, args...)
	out, err := w.Exec(db.Name+"-client", "client", argv...)
	return strings.TrimSpace(out), err
}

// patiently returns a script that repeats another one until it succeeds, for about 5 s: that is cheaper than a new process
// in the container.
func patiently(script string) string {
	return "check() { " + script + "\n}\n" +
		"for _ in {1..25}; do if check \"$@\" 2>/dev/null; then exit; fi; sleep 0.2; done; check \"$@\""
}

// query runs statements over the endpoint, in a new connection.
func (w *world) query(db *v1.Database, sql string) string {
	w.t.Helper()
	out, err := w.shell(db, w.engine.remote, sql)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// fill inserts 1,000 orders and returns their checksum.
func (w *world) fill(db *v1.Database) string {
	w.t.Helper()
	w.query(db, w.engine.table)
	w.query(db, fmt.Sprintf(w.engine.fill, "1", "1000"))
	return w.query(db, w.engine.sum)
}

// member runs statements on one member, over its socket.
func (w *world) member(db *v1.Database, ordinal int, sql string) (string, error) {
	out, err := w.Exec(desired.PodName(db, ordinal), desired.Container, append(w.engine.local, sql)...)
	return strings.TrimSpace(out), err
}

// has waits until a member has the orders with this checksum.
func (w *world) has(db *v1.Database, ordinal int, want string) {
	w.t.Helper()
	w.Wait(fmt.Sprintf("member %d has the same rows", ordinal), func(context.Context) error {
		got, err := w.member(db, ordinal, w.engine.sum)
		if err == nil && got != want {
			err = fmt.Errorf("it has %s, want %s", got, want)
		}
		return err
	})
}
