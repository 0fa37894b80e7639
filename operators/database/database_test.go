package database_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

func state(want v1.State) testkit.Check {
	return testkit.Match("state "+string(want), func(db *v1.Database) bool { return db.Status.State == want })
}

func members(n int32) testkit.Check {
	return testkit.Match("readyReplicas", func(db *v1.Database) bool { return db.Status.ReadyReplicas == n })
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func cron(name string) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// sample reads a sample of config/samples, for the test's namespace.
func sample(t *testing.T, name string) *v1.Database {
	t.Helper()
	manifest, err := os.ReadFile("config/samples/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	db := &v1.Database{}
	if err := yaml.UnmarshalStrict(manifest, db); err != nil {
		t.Fatal(err)
	}
	db.Namespace = ""
	return db
}

// The article's manifest results in the article's names, statuses, reasons and messages.
func TestArticle(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	release := k.Kubelet.DelayReadiness("app=orders-db-db")
	start(k)
	db := sample(t, "example")
	k.Apply(db)
	k.Eventually(db, state(v1.Provisioning), members(0),
		testkit.Reason("Ready", metav1.ConditionFalse, "Provisioning"),
		testkit.Reason("Available", metav1.ConditionFalse, "Provisioning"),
		says("Ready", "Database is being provisioned"), says("Available", "Waiting for first replica"))
	release()
	k.Eventually(db, testkit.Ready(), state(v1.Ready), members(2),
		testkit.Reason("Ready", metav1.ConditionTrue, "DatabaseReady"), says("Ready", "All replicas healthy"),
		testkit.Reason("Available", metav1.ConditionTrue, "DatabaseAvailable"),
		says("Available", "Database accepting connections"))
	if got, want := db.Status.Endpoint, "orders-db-db."+k.Namespace+".svc.cluster.local:5432"; got != want {
		t.Errorf("the endpoint is %s, want %s", got, want)
	}

	members := set("orders-db-db")
	k.Get(members)
	if l := members.Labels; l["app"] != "orders-db" || l["managed-by"] != "database-operator" {
		t.Errorf("the StatefulSet has the labels %v", l)
	}
	if l := members.Spec.Template.Labels["app"]; l != "orders-db-db" {
		t.Errorf("the pods are labelled app=%s", l)
	}
	server := members.Spec.Template.Spec.Containers[0]
	if server.Name != "db" || server.Image != "postgres:16" || server.Ports[0].ContainerPort != 5432 {
		t.Errorf("the container is %s with %s at %v", server.Name, server.Image, server.Ports)
	}
	for _, want := range []struct{ what, got, want string }{
		{"requested memory", server.Resources.Requests.Memory().String(), "256Mi"},
		{"requested CPU", server.Resources.Requests.Cpu().String(), "100m"},
		{"memory", server.Resources.Limits.Memory().String(), "1Gi"},
		{"CPU", server.Resources.Limits.Cpu().String(), "500m"},
	} {
		if want.got != want.want {
			t.Errorf("%s is %s, want %s", want.what, want.got, want.want)
		}
	}
	for _, name := range []string{"data-orders-db-db-0", "data-orders-db-db-1", "orders-db-db-backup"} {
		k.Eventually(claim(name), testkit.Exists(), asks("100Gi"))
	}
	k.Eventually(cron("orders-db-db-backup"), testkit.Exists())
	for _, name := range []string{"orders-db-db", "orders-db-db-ro", "orders-db-db-hl"} {
		k.Eventually(service(name), testkit.Exists())
	}

	k.Update(db, func() { db.Spec.BackupEnabled = new(false) })
	k.Eventually(cron("orders-db-db-backup"), testkit.Gone())
	k.Eventually(claim("orders-db-db-backup"), testkit.Exists())
	k.Update(db, func() { db.Spec.BackupEnabled = new(true) })
	k.Eventually(cron("orders-db-db-backup"), testkit.Exists())

	k.Delete(members) // "missing StatefulSet is recreated"
	k.Eventually(members, testkit.Gone())
	k.Eventually(db, testkit.Ready(), state(v1.Ready))
}

func says(condition, message string) testkit.Check {
	return testkit.Match(condition+" says "+message, func(db *v1.Database) bool {
		c := conditions.Get(db, condition)
		return c != nil && c.Message == message
	})
}

// Each engine has its own port in all objects.
func TestPorts(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	for engine, want := range map[v1.Engine]int32{v1.PostgreSQL: 5432, v1.MySQL: 3306, v1.MariaDB: 3306} {
		db := newDatabase(string(engine))
		db.Spec.Engine = engine
		db.Spec.Version = "11"
		db.Spec.Replicas = nil
		k.Apply(db)
		k.Eventually(db, testkit.Ready())
		s := service(db.Name + "-db")
		k.Get(s)
		members := set(db.Name + "-db")
		k.Get(members)
		if got := members.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort; got != want || s.Spec.Ports[0].Port != want {
			t.Errorf("%s: port %d in the container and %d of the Service, want %d", engine, got, s.Spec.Ports[0].Port, want)
		}
		if end := fmt.Sprintf(".svc.cluster.local:%d", want); !strings.HasSuffix(db.Status.Endpoint, end) {
			t.Errorf("%s: the endpoint is %s, want …%s", engine, db.Status.Endpoint, end)
		}
	}
}

// Manual changes of the StatefulSet, its claims and its Services are reverted; the Database itself can be scaled.
func TestScale(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.Replicas = new(int32(1))
	k.Apply(db)
	k.Eventually(db, testkit.Ready(), members(1))
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "a-db"}}
	k.Eventually(budget, testkit.Gone())
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	if err := k.Client.SubResource("scale").Update(k.Context(), db, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	k.Eventually(db, testkit.Ready(), members(3), state(v1.Ready),
		testkit.Reason(status.ReplicationHealthy, metav1.ConditionTrue, "Streaming"))
	k.Eventually(budget, testkit.Exists())
	theirs := set("a-db")
	k.Update(theirs, func() { theirs.Spec.Replicas = new(int32(1)) })
	k.Eventually(theirs, testkit.Match("3 replicas", func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas == 3 }))
	k.Eventually(db, testkit.Ready(), members(3))

	k.Update(db, func() { db.Spec.Replicas = new(int32(1)) })
	k.Eventually(db, testkit.Ready(), members(1))
	k.Eventually(pod("a-db-2"), testkit.Gone())
	k.Eventually(claim("data-a-db-2"), testkit.Exists())
	k.Update(db, func() { db.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Delete" })
	k.Eventually(claim("data-a-db-2"), testkit.Gone())
	k.Eventually(claim("data-a-db-1"), testkit.Gone())
	k.Eventually(claim("data-a-db-0"), testkit.Exists())
}

// The primary's Service selects the primary only, and the Service for reading selects the replicas.
func TestRoles(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	k.Run(database.NewRoles())
	db := newDatabase("a")
	db.Spec.Replicas = new(int32(3))
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	expectEndpoints(k, "a-db", "a-db-0")
	expectEndpoints(k, "a-db-ro", "a-db-1", "a-db-2")
	expectEndpoints(k, "a-db-hl", "a-db-0", "a-db-1", "a-db-2")
	k.Update(db, func() { db.Spec.Replicas = new(int32(1)) })
	k.Eventually(db, testkit.Ready())
	expectEndpoints(k, "a-db-ro", "a-db-0")
}

// expectEndpoints waits until the endpoints of a Service are these pods.
func expectEndpoints(k *testkit.K, name string, pods ...string) {
	k.Wait("the endpoints of "+name, func(ctx context.Context) error {
		slicesOf := &discoveryv1.EndpointSliceList{}
		if err := k.Client.List(ctx, slicesOf, client.InNamespace(k.Namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
			return err
		}
		var got []string
		for _, s := range slicesOf.Items {
			for _, e := range s.Endpoints {
				got = append(got, e.TargetRef.Name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(pods, got); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
}

// A hibernated database keeps everything and runs nothing.
func TestHibernate(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	k.Update(db, func() { db.Spec.Hibernate = true })
	k.Eventually(db, state(v1.Hibernated), members(0), testkit.Reason("Ready", metav1.ConditionFalse, "Hibernated"))
	k.Eventually(pod("a-db-0"), testkit.Gone())
	k.Eventually(claim("data-a-db-1"), testkit.Exists())
	k.Eventually(cron("a-db-backup"), testkit.Match("suspended", func(c *batchv1.CronJob) bool { return *c.Spec.Suspend }))
	k.Update(db, func() { db.Spec.Hibernate = false })
	k.Eventually(db, testkit.Ready(), state(v1.Ready), members(2))
}

// An unschedulable database waits, as its dumps would, and is created when there is room.
func TestUnschedulableDatabase(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.PodTemplate = &v1.PodTemplate{
		Annotations: map[string]string{"mesh": "none"},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}},
			}}},
		}},
	}
	k.Apply(db)
	k.Eventually(db, state(v1.Provisioning), testkit.Match("says what is missing", func(db *v1.Database) bool {
		ready := conditions.Get(db, conditions.Ready)
		return ready != nil && strings.Contains(ready.Message, "being provisioned: pod a-db-0: 0/")
	}))
	dumps := cron("a-db-backup")
	k.Eventually(dumps, testkit.Exists())
	template := &dumps.Spec.JobTemplate.Spec.Template
	if template.Annotations["mesh"] != "none" || template.Spec.Affinity == nil || template.Spec.Affinity.NodeAffinity == nil {
		t.Errorf("dumps are made by %+v", template)
	}
	k.Update(db, func() { db.Spec.PodTemplate = nil })
	k.Eventually(db, testkit.Ready(), state(v1.Ready))
}
