package database_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/adoption"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// ofRelease returns the objects of a Helm release that is called like a Database: the names are those of the Database's
// children, and the label is the one that almost every chart sets.
func ofRelease(name string) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{
			sdk.InstanceLabel: "a", "app.kubernetes.io/managed-by": "Helm", "managed-by": "database-operator",
		}}
	}
	pods := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "theirs"}},
	}
	return []client.Object{
		&corev1.Service{ObjectMeta: meta(name + "-db"), Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 5432}}, Selector: map[string]string{"app": "theirs"},
		}},
		&corev1.Secret{ObjectMeta: meta(name + "-db-credentials"), Data: map[string][]byte{"password": []byte("known")}},
		&corev1.ConfigMap{ObjectMeta: meta(name + "-db-config"), Data: map[string]string{"begun": "true"}},
		&batchv1.CronJob{ObjectMeta: meta(name + "-db-backup"), Spec: batchv1.CronJobSpec{
			Schedule: "0 0 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				Template: corev1.PodTemplateSpec{Spec: pods},
			}},
		}},
	}
}

// A Database neither changes, uses nor deletes the objects of a release with its name, nor what another tenant has put
// there, although they have the label of its children.
func TestReleaseIsNotTakenOver(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	theirs := ofRelease("a")
	for _, o := range theirs {
		k.Apply(o)
		k.Get(o)
	}
	db := newDatabase("a")
	db.Spec.DeletionPolicy = v1.DeletionDelete
	k.Apply(db)
	k.Eventually(db, testkit.Condition("Stalled", metav1.ConditionTrue), state(v1.Failed), observedSpec())
	k.Eventually(set("a-db"), testkit.Gone()) // without the credentials
	k.Delete(db)
	k.Eventually(db, testkit.Gone())
	for _, was := range theirs {
		is, _ := was.DeepCopyObject().(client.Object)
		k.Get(is)
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("%T %s has changed:\n%s", was, was.GetName(), diff)
		}
	}
}

// An object with the annotation is adopted.
func TestAdoptAnnotation(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	theirs := service("a-db")
	theirs.Annotations = map[string]string{adoption.Annotation: "a"}
	theirs.Spec.Ports = []corev1.ServicePort{{Name: "postgresql", Port: 5432}}
	other := secret("a-db-credentials")
	other.Annotations = map[string]string{adoption.Annotation: "b"}
	k.Apply(theirs)
	k.Apply(other)
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(theirs, testkit.Match("owned", func(s *corev1.Service) bool { return metav1.IsControlledBy(s, db) }))
	k.Eventually(db, testkit.Condition("Stalled", metav1.ConditionTrue), state(v1.Failed))
	k.Delete(other)
	k.Eventually(db, testkit.Ready())
}

func observedSpec() testkit.Check {
	return testkit.Match("observed", func(db *v1.Database) bool { return db.Status.ObservedGeneration == db.Generation })
}
