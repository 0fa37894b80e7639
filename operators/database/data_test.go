package database_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/adoption"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// kept returns the UIDs of the objects that outlive a Database.
func kept(k *testkit.K) map[string]types.UID {
	all := map[string]types.UID{}
	for _, o := range []client.Object{
		claim("data-a-db-0"), claim("data-a-db-1"), claim("a-db-backup"), secret("a-db-credentials"),
	} {
		k.Get(o)
		all[o.GetName()] = o.GetUID()
	}
	return all
}

// Hard scenario 2e.3: the data and the credentials outlive a Database with any propagation policy, with and without the
// operator, and its successor has them. With the policy Delete nothing is left.
func TestDeletion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy        metav1.DeletionPropagation
		stop, orphans bool
	}{
		"background":           {policy: metav1.DeletePropagationBackground},
		"foreground":           {policy: metav1.DeletePropagationForeground}, // used by Argo CD
		"orphans":              {policy: metav1.DeletePropagationOrphan, orphans: true},
		"without the operator": {policy: metav1.DeletePropagationForeground, stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			op := start(k)
			db := newDatabase("a")
			k.Apply(db)
			k.Eventually(db, testkit.Ready())
			credentials := secret("a-db-credentials")
			k.Get(credentials)
			before, pods := kept(k), uids(k, "a-db-0", "a-db-1")
			if c.stop {
				op.Stop()
			}
			if err := k.Client.Delete(k.Context(), db, client.PropagationPolicy(c.policy)); err != nil {
				t.Fatal(err)
			}
			k.Eventually(db, testkit.Gone())
			if !c.orphans {
				k.Eventually(set("a-db"), testkit.Gone())
				k.Eventually(pod("a-db-0"), testkit.Gone())
			}
			if c.stop {
				start(k)
			}
			k.Apply(newDatabase("a"))
			again := newDatabase("a")
			k.Eventually(again, testkit.Ready(), state(v1.Ready))
			if diff := cmp.Diff(before, kept(k)); diff != "" {
				t.Errorf("what was kept is another one, -was +is:\n%s", diff)
			}
			if same := cmp.Equal(pods, uids(k, "a-db-0", "a-db-1")); same != c.orphans {
				t.Errorf("the pods are the same: %t", same)
			}
			now := secret("a-db-credentials")
			if k.Get(now); cmp.Diff(credentials.Data, now.Data) != "" {
				t.Error("the passwords are others")
			}
			k.Update(again, func() { again.Spec.DeletionPolicy = v1.DeletionDelete })
			k.Eventually(again, testkit.Ready())
			k.Delete(again)
			k.Eventually(again, testkit.Gone())
			expectNothingLeft(k)
		})
	}
}

// A change of the claim template replaces the StatefulSet, and its pods have no owner meanwhile. The pods of a Database that
// is deleted at this moment end with it.
func TestPodsOfReplacedStatefulSetEnd(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionDelete
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	op.Stop()
	k.Delete(set("a-db"), client.PropagationPolicy(metav1.DeletePropagationOrphan))
	k.Eventually(set("a-db"), testkit.Gone())
	k.Delete(db)
	start(k)
	k.Eventually(db, testkit.Gone())
	for _, name := range []string{"a-db-0", "a-db-1"} {
		k.Eventually(pod(name), testkit.Gone())
	}
	expectNothingLeft(k)
}

// A claim that the StatefulSet controller created in the operator's absence is deleted with a Database of the policy Delete.
func TestStatefulSetClaimIsDeleted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionDelete
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	op.Stop()
	c := claim("data-a-db-1")
	k.Get(c)
	was := c.UID
	k.Delete(c)
	k.Delete(pod("a-db-1"))
	k.Eventually(c, testkit.Match("another one", func(c *corev1.PersistentVolumeClaim) bool { return c.UID != was }))
	start(k)
	k.Delete(db)
	k.Eventually(db, testkit.Gone())
	expectNothingLeft(k)
}

// finalizers checks whether the Database has finalizers.
func finalizers(want bool) testkit.Check {
	return testkit.Match(fmt.Sprintf("finalizers: %t", want), func(db *v1.Database) bool {
		return len(db.Finalizers) > 0 == want
	})
}

// The dumps of a database are a series for as long as it has the same data: a successor that has them continues it, and one
// that begins anew deletes none of the former dumps.
func TestSeriesOfDumpsFollowsTheData(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	series := func() (value string) {
		db := newDatabase("a")
		k.Apply(db)
		k.Eventually(db, testkit.Ready())
		data := claim("data-a-db-0")
		k.Get(data)
		k.Eventually(cron("a-db-backup"), testkit.Match("the series of its data", func(c *batchv1.CronJob) bool {
			value = env(&c.Spec.JobTemplate.Spec.Template.Spec, "SERIES")
			return value == "backup/a/"+string(data.UID)
		}))
		k.Delete(db)
		k.Eventually(set("a-db"), testkit.Gone())
		k.Eventually(pod("a-db-0"), testkit.Gone())
		return value
	}
	first := series()
	if again := series(); again != first {
		t.Errorf("with the same data the series is %s, want %s", again, first)
	}
	data := claim("data-a-db-0")
	k.Delete(data)
	k.Eventually(data, testkit.Gone())
	if other := series(); other == first {
		t.Errorf("with other data the series is still %s", other)
	}
}

// expectNothingLeft waits until all objects of a Database are gone.
func expectNothingLeft(k *testkit.K) {
	for _, o := range []client.Object{
		claim("data-a-db-0"), claim("data-a-db-1"), claim("a-db-backup"), secret("a-db-credentials"), set("a-db"), service("a-db"),
		service("a-db-ro"), service("a-db-hl"), cron("a-db-backup"), pod("a-db-0"), pod("a-db-1"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-db-config"}},
	} {
		k.Eventually(o, testkit.Gone())
	}
}

// Passwords are created once. If they are lost and the data are not, new ones would be useless, and the user is asked.
func TestLostCredentialsAreNotRecreated(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready())
	theirs := secret("a-db-credentials")
	k.Get(theirs)
	for _, key := range []string{"password", "dump-password", "replication-password", "uri"} {
		if len(theirs.Data[key]) < 26 {
			t.Errorf("%s has %d characters", key, len(theirs.Data[key]))
		}
	}
	k.Delete(theirs)
	lost := testkit.Reason("Stalled", metav1.ConditionTrue, "CredentialsLost")
	k.Eventually(db, lost, state(v1.Failed))
	op.Stop()
	start(k)
	k.Eventually(db, lost)
	for _, policy := range []v1.DeletionPolicy{v1.DeletionDelete, v1.DeletionRetain} { // both policies behave alike here
		k.Update(db, func() { db.Spec.DeletionPolicy = policy })
		k.Eventually(db, lost, finalizers(policy != v1.DeletionRetain))
		for _, name := range []string{"data-a-db-0", "data-a-db-1", "a-db-backup"} {
			k.Eventually(claim(name), testkit.Match("no owner", func(c *corev1.PersistentVolumeClaim) bool {
				return len(c.OwnerReferences) == 0
			}))
		}
	}
	k.Update(db, func() { db.Spec.Configuration = map[string]v1.Setting{"work_mem": "8MB"} })
	k.Eventually(db, lost, testkit.Match("seen", func(db *v1.Database) bool {
		return db.Status.ObservedGeneration == db.Generation
	}))
	k.Eventually(secret("a-db-credentials"), testkit.Gone())
	k.Eventually(set("a-db"), testkit.Exists())

	again := secret("a-db-credentials")
	again.Annotations = map[string]string{adoption.Annotation: "a"}
	again.Data = theirs.Data
	k.Apply(again)
	k.Eventually(db, testkit.Ready(), state(v1.Ready))
	k.Get(again)
	if diff := cmp.Diff(theirs.Data, again.Data); diff != "" {
		t.Error("the passwords are others")
	}
}

// The user's Secret is mounted, and is neither created, read nor deleted.
func TestUserCredentials(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.CredentialsSecretRef = &v1.SecretReference{Name: "theirs"}
	db.Spec.DeletionPolicy = v1.DeletionDelete
	k.Apply(db)
	k.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "ReferenceNotFound"), state(v1.Provisioning))
	theirs := secret("theirs")
	theirs.Data = map[string][]byte{"password": []byte("secret")}
	k.Apply(theirs)
	k.Eventually(db, testkit.Ready())
	if db.Status.SecretName != "theirs" {
		t.Errorf("status.secretName is %s", db.Status.SecretName)
	}
	ours := secret("a-db-credentials")
	k.Get(ours)
	if _, has := ours.Data["uri"]; has {
		t.Error("there are two ways to connect for the owner")
	}
	k.Delete(theirs) // running pods are unchanged, and the status reports it
	k.Eventually(db, testkit.Reason("Ready", metav1.ConditionFalse, "ReferenceNotFound"), members(2))
	k.Update(db, func() { db.Spec.Replicas = new(int32(1)) })
	k.Eventually(db, members(1))
	k.Update(db, func() { db.Spec.CredentialsSecretRef = nil })
	k.Eventually(db, testkit.Ready())
	if k.Get(ours); len(ours.Data["password"]) < 26 {
		t.Error("there is no password that takes the place of the user's")
	}
	theirs = secret("theirs")
	k.Apply(theirs)
	k.Delete(db)
	k.Eventually(ours, testkit.Gone())
	k.Eventually(theirs, testkit.Exists())
}

// A foreign object with the name of a child is neither written nor used.
func TestForeignObjectIsNeverWritten(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	theirs := claim("data-a-db-0")
	theirs.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *storageSize("1Gi")}},
	}
	k.Apply(theirs)
	other := claim("data-b-db-0")
	other.Spec = *theirs.Spec.DeepCopy()
	other.Labels = map[string]string{sdk.InstanceLabel: "b", "techoral.com/engine": "postgresql", "techoral.com/major": "15"}
	k.Apply(other)
	for _, name := range []string{"a", "b"} { // the labels of b are those of a chart's release
		db := newDatabase(name)
		k.Apply(db)
		k.Eventually(db, testkit.Condition("Stalled", metav1.ConditionTrue), state(v1.Failed))
		k.Eventually(set(name+"-db"), testkit.Gone())
		t.Log(db.Status.Error)
	}
	k.Eventually(theirs, testkit.Match("as it was", func(c *corev1.PersistentVolumeClaim) bool {
		return len(c.OwnerReferences) == 0 && len(c.Labels) == 0
	}))
	k.Delete(theirs)
	a := newDatabase("a")
	k.Eventually(a, testkit.Ready(), state(v1.Ready))
}
