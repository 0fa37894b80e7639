package database_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

// loseVolume deletes the claim and the pod of the primary, and returns the new claim. The new pod does not become ready.
func loseVolume(k *testkit.K) (lost *corev1.PersistentVolumeClaim, release func()) {
	release = k.Kubelet.DelayReadiness("statefulset.kubernetes.io/pod-name=a-db-0")
	lost = claim("data-a-db-0")
	k.Get(lost)
	was := lost.UID
	k.Delete(lost)
	k.Delete(pod("a-db-0"))
	k.Eventually(lost, testkit.Match("another claim", func(c *corev1.PersistentVolumeClaim) bool {
		return c.UID != was && c.DeletionTimestamp == nil
	}))
	return lost, release
}

// state checks the keys of the ConfigMap that init.sh reads.
func primaryState(begun bool, recoverFrom string) testkit.Check {
	return testkit.Match("the keys of the primary", func(c *corev1.ConfigMap) bool {
		return (c.Data[desired.HasDataKey] != "") == begun && c.Data[desired.RecoverFromKey] == recoverFrom
	})
}

// The permission to begin with an empty database is for one claim. It does not let a later loss pass unnoticed.
func TestBeginAnewIsForOneClaim(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-db-config"}}
	k.Eventually(settings, primaryState(true, ""))
	lost, release := loseVolume(k)
	k.Eventually(settings, primaryState(true, ""))
	annotate(k, db, database.BeginAnewAnnotation, "true")
	k.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "BeginAnewIgnored"))
	k.Eventually(settings, primaryState(true, ""))
	annotate(k, db, database.BeginAnewAnnotation, string(lost.UID))
	k.Eventually(settings, primaryState(false, ""))
	release()
	k.Eventually(db, testkit.Ready())
	k.Eventually(settings, primaryState(true, ""))

	_, release = loseVolume(k)
	k.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "BeginAnewIgnored"))
	k.Eventually(settings, primaryState(true, ""))
	release()
}

// A primary that lost its volume gets the host of the replica to recover from, once.
func TestRecoverFromMember(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-db-config"}}
	annotate(k, db, database.RecoverAnnotation, "2")
	_, release := loseVolume(k)
	k.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "RecoveryIgnored")) // there is no member 2
	k.Eventually(settings, primaryState(true, ""))
	annotate(k, db, database.RecoverAnnotation, "1")
	host := "a-db-1.a-db-hl." + k.Namespace + ".svc"
	k.Eventually(settings, primaryState(true, host))
	k.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "Recovering"))
	release()
	k.Eventually(db, testkit.Ready())
	k.Eventually(settings, primaryState(true, ""))

	_, release = loseVolume(k)
	k.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "RecoveryIgnored"))
	annotate(k, db, database.RecoverAnnotation, "")
	k.Eventually(settings, testkit.Match("forgotten", func(c *corev1.ConfigMap) bool {
		return c.Data[desired.RecoveredKey] == ""
	}))
	annotate(k, db, database.RecoverAnnotation, "1")
	k.Eventually(settings, primaryState(true, host))
	release()
}

func annotate(k *testkit.K, db *v1.Database, key, value string) {
	k.Update(db, func() {
		annotations := db.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		if value == "" {
			delete(annotations, key)
		}
		db.SetAnnotations(annotations)
	})
}
