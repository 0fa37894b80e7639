package database_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

func image(want string) testkit.Check {
	return testkit.Match("image "+want, func(s *appsv1.StatefulSet) bool {
		return s.Spec.Template.Spec.Containers[0].Image == want
	})
}

// runs checks the version of all members.
func runs(version string) testkit.Check {
	return testkit.Match("version "+version, func(db *v1.Database) bool { return db.Status.CurrentVersion == version })
}

// A new version of the operator with another pod template restarts no pods. They change with the next change of the spec, or
// with the upgrade option. Manual changes are still reverted.
func TestOperatorUpgradeRestartsNoPods(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	before := uids(k, "a-db-0", "a-db-1")
	waitIdle(k, op)
	op.Stop()

	other := database.Options{ImageTemplate: "mirror/{{.Engine}}:{{.Version}}"} // as in a new version
	op = k.Run(database.New(other))
	waitIdle(k, op)
	for _, w := range writes(op) {
		if w.Resource == "statefulsets" {
			t.Errorf("write by the new version: %s", w)
		}
	}
	members := set("a-db")
	k.Eventually(members, image("postgres:16"))
	k.Update(members, func() { members.Spec.Template.Spec.Containers[0].Image = "theirs" })
	k.Eventually(members, image("postgres:16"))
	k.Eventually(db, testkit.Ready())
	k.Eventually(members, testkit.Ready())
	stay := uids(k, "a-db-0", "a-db-1")              // pods restarted until the change was reverted
	k.Update(db, func() { db.Spec.Storage = "2Gi" }) // the StatefulSet is recreated for it
	k.Eventually(members, template("2Gi"), image("postgres:16"), testkit.Ready())
	k.Eventually(db, testkit.Ready(), granted("2Gi"))
	k.Delete(members, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	k.Eventually(members, image("postgres:16"), testkit.Ready())
	if after := uids(k, "a-db-0", "a-db-1"); fmt.Sprint(after) != fmt.Sprint(stay) {
		t.Error("the pods are not the first ones any more")
	}
	k.Update(db, func() { db.Spec.Configuration = map[string]v1.Setting{"work_mem": "8MB"} })
	k.Eventually(members, image("mirror/postgresql:16"), testkit.Ready())
	op.Stop()

	other = database.Options{ImageTemplate: "newer/{{.Engine}}:{{.Version}}", UpgradeTemplates: true}
	k.Run(database.New(other))
	k.Run(database.NewUpgrades(other))
	k.Eventually(members, image("newer/postgresql:16"), testkit.Ready())
	k.Eventually(db, testkit.Ready())
	if after := uids(k, "a-db-0", "a-db-1"); fmt.Sprint(after) == fmt.Sprint(before) {
		t.Error("the pods are the first ones still")
	}
}

// Settings restart the members one after the other, the primary last. A pod that starts meanwhile has the settings of its
// template. The old settings are deleted when no pod refers to them.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("a")
	db.Spec.Replicas = new(int32(3))
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-db-config"}}
	k.Get(config)
	first := uids(k, "a-db-0", "a-db-1", "a-db-2")
	release := k.Kubelet.DelayReadiness("app=a-db,apps.kubernetes.io/pod-index=2")
	k.Update(db, func() { db.Spec.Configuration = map[string]v1.Setting{"work_mem": "8MB", "log_line_prefix": "it's "} })
	k.Eventually(pod("a-db-2"), testkit.Match("replaced", func(p *corev1.Pod) bool { return p.UID != first[2] }))
	k.Eventually(db, state(v1.Degraded), testkit.Condition("Progressing", metav1.ConditionTrue))
	k.Eventually(config, testkit.Match("both settings", func(c *corev1.ConfigMap) bool { return settingsOf(c) == 2 }))
	if now := uids(k, "a-db-0", "a-db-1"); now[0] != first[0] || now[1] != first[1] {
		t.Error("the primary or the other replica did not wait for the first")
	}
	release()
	k.Eventually(db, testkit.Ready(), state(v1.Ready))
	k.Eventually(pod("a-db-0"), testkit.Match("replaced", func(p *corev1.Pod) bool { return p.UID != first[0] }))
	k.Eventually(config, testkit.Match("the new settings", func(c *corev1.ConfigMap) bool { return settingsOf(c) == 1 }))
	for key, text := range config.Data {
		if strings.HasPrefix(key, "settings-") && text != "log_line_prefix = 'it''s '\nwork_mem = '8MB'\n" {
			t.Errorf("the settings are %q", text)
		}
	}
	waitIdle(k, op)
	raw, err := json.Marshal(config.Data)
	if err != nil || !strings.Contains(string(raw), `"begun":"true"`) {
		t.Errorf("the ConfigMap does not record that the database has data: %s, %v", raw, err)
	}
}

func settingsOf(c *corev1.ConfigMap) (n int) {
	for key := range c.Data {
		if strings.HasPrefix(key, "settings-") {
			n++
		}
	}
	return n
}

// With OnDelete a pod changes after a user deletes it.
func TestUpgradePolicy(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.Replicas = new(int32(1))
	db.Spec.UpgradePolicy = v1.UpgradeOnDelete
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	k.Update(db, func() { db.Spec.Version = "16.4" })
	k.Eventually(set("a-db"), image("postgres:16.4"))
	k.Eventually(db, testkit.Condition("Progressing", metav1.ConditionTrue), runs("16"))
	k.Delete(pod("a-db-0"))
	k.Eventually(db, testkit.Ready(), runs("16.4"))
}
