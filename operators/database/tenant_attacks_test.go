package database_test

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/adoption"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/testkit"
)

func otherNamespace(e *tenancy) {
	for _, o := range []client.Object{newDatabase("a"), yearly("a")} {
		o.SetNamespace("default")
		if err := e.eve.Create(e.Context(), o); !apierrors.IsForbidden(err) {
			e.t.Errorf("eve may create a %T in another namespace: %v", o, err)
		}
	}
}

func forgedStatus(e *tenancy) {
	db := e.database("a", func(db *v1.Database) { db.Status = v1.DatabaseStatus{SecretName: "theirs", Restored: "theirs"} })
	e.Eventually(db, testkit.Ready())
	if db.Status.SecretName != "a-db-credentials" || db.Status.Restored != "" {
		e.t.Errorf("the status of a new Database is eve's: %+v", db.Status)
	}
	snapshot := yearly("a")
	snapshot.Status.Phase = v1.SnapshotSucceeded
	e.create(snapshot)
	if snapshot.Status.Phase != "" {
		e.t.Errorf("the status of a new DBSnapshot is eve's: %+v", snapshot.Status)
	}
	for _, o := range []client.Object{db, e.victim, snapshot} {
		if err := e.eve.Status().Update(e.Context(), o); !apierrors.IsForbidden(err) {
			e.t.Errorf("eve may write the status of %T %s: %v", o, o.GetName(), err)
		}
	}
}

// S2: passwords that eve knows.
func plantedSecret(e *tenancy) {
	theirs := secret("a-db-credentials")
	e.mark(theirs, ownDatabase("a"))
	theirs.Data = map[string][]byte{"password": []byte("known"), "dump-password": []byte("known")}
	e.create(theirs)
	db := e.database("a")
	e.Eventually(db, testkit.Condition("Stalled", metav1.ConditionTrue), state(v1.Failed), observedSpec())
	e.Eventually(set("a-db"), testkit.Gone())
	e.delete(theirs)
	e.Eventually(db, testkit.Ready())
	e.Eventually(secret("a-db-credentials"), testkit.Match("new passwords", func(s *corev1.Secret) bool {
		return len(s.Data["password"]) > 20 && len(s.Data["dump-password"]) > 20
	}))
}

// S2: a ConfigMap that says that the database has had data.
func plantedConfigMap(e *tenancy) {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a-db-config"}, Data: map[string]string{"begun": "true"}}
	e.mark(theirs, ownDatabase("a"))
	e.create(theirs)
	db := e.database("a")
	e.Eventually(db, testkit.Condition("Stalled", metav1.ConditionTrue), state(v1.Failed), observedSpec())
	e.Eventually(set("a-db"), testkit.Gone())
	e.delete(theirs)
	e.Eventually(db, testkit.Ready())
}

// Field managers can be forged. What is adopted because of it gets the content that every child has, and an object with
// another name is not adopted.
func forgedManager(e *tenancy) {
	theirs, other := service("a-db"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	theirs.Spec.Ports = []corev1.ServicePort{{Name: "db", Port: 5432}}
	theirs.Spec.Selector = map[string]string{"of": "eve"}
	e.mark(theirs, ownDatabase("a"))
	e.mark(other, e.victim)
	e.create(theirs, client.FieldOwner("database"))
	e.create(other, client.FieldOwner("database"))
	db := e.database("a")
	e.Eventually(db, testkit.Ready())
	e.Eventually(theirs, testkit.Match("our selector", func(s *corev1.Service) bool {
		return s.Spec.Selector["of"] == "" && s.Spec.Selector["app"] == "a-db" && metav1.IsControlledBy(s, db)
	}))
	e.Eventually(other, testkit.Match("no owner", func(c *corev1.ConfigMap) bool { return len(c.OwnerReferences) == 0 }))
}

// A reference to the Database makes an object its child, and one that is not in the plan is pruned.
func forgedOwner(e *tenancy) {
	other, password := foreignSet("other"), secret("other-db-credentials")
	for _, o := range []client.Object{other, password} {
		e.mark(o, e.victim)
		o.SetOwnerReferences(childOf(e.victim))
		e.create(o, client.FieldOwner("database"))
	}
	e.Eventually(other, testkit.Gone())
	e.Eventually(password, testkit.Gone())
}

// The name of an owner in an annotation is no way to another namespace.
func ownerElsewhere(e *tenancy) {
	other := foreignSet("a-db")
	e.mark(other, e.victim)
	other.Labels[apply.OwnerUIDLabel] = string(e.victim.UID)
	other.Annotations[apply.OwnerAnnotation] = "kube-system/victim"
	e.create(other)
	db := e.database("b")
	e.Eventually(db, testkit.Ready())
	e.Eventually(other, testkit.Match("theirs", func(s *appsv1.StatefulSet) bool {
		return len(s.OwnerReferences) == 0 && s.Spec.Template.Spec.Containers[0].Image == "theirs:1"
	}))
}

func foreignSet(name string) *appsv1.StatefulSet {
	s := set(name)
	labels := map[string]string{"of": "eve"}
	s.Spec.Replicas = new(int32(0))
	s.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	s.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "theirs:1"}},
	}}
	return s
}

// A pod with the labels of a member is none, so that it can neither stand in for a broken member nor report a failure.
func forgedMember(e *tenancy) {
	forged := pod("extra")
	forged.Labels = map[string]string{
		sdk.ManagedByLabel: "database", sdk.InstanceLabel: "victim", desired.ComponentLabel: desired.ServerComponent,
		appsv1.PodIndexLabel: "1",
	}
	forged.Spec.Containers = []corev1.Container{{Name: "c", Image: "theirs:1"}}
	e.create(forged)
	e.Eventually(forged, testkit.Ready())
	e.Update(e.victim, func() { e.victim.Spec.Backup.Retention.Count = 8 })
	e.Eventually(e.victim, observedSpec(), testkit.Ready())
	if n := e.victim.Status.Replicas; n != 1 {
		e.t.Errorf("the victim has %d members", n)
	}
}

// Children that cannot be deleted hold up neither their Database nor others.
func heldChildren(e *tenancy) {
	db := e.database("a")
	e.Eventually(db, testkit.Ready())
	held := []client.Object{set("a-db"), service("a-db"), secret("a-db-credentials")}
	for _, o := range held {
		e.patch(o, `{"metadata": {"finalizers": ["evil.example/held"]}}`)
	}
	e.delete(db)
	e.Eventually(db, testkit.Gone())
	other := e.database("b")
	e.Eventually(other, testkit.Ready())
	for _, o := range held {
		e.patch(o, `{"metadata": {"finalizers": null}}`)
	}
}

// patch patches an object as eve.
func (e *tenancy) patch(o client.Object, patch string) {
	e.t.Helper()
	raw := client.RawPatch(types.MergePatchType, []byte(patch))
	if err := e.eve.Patch(e.Context(), inNamespace(e.K, o), raw); err != nil {
		e.t.Fatal(err)
	}
}

// Children without their labels and field managers are found by their names. A Secret without them is not taken for the
// Database's, which says so and works on.
func strippedMarks(e *tenancy) {
	db := e.database("a")
	e.Eventually(db, testkit.Ready())
	const wipe = `{"metadata": {"labels": null, "managedFields": [{}]}}`
	for _, o := range []client.Object{set("a-db"), service("a-db")} {
		e.patch(o, wipe)
		e.Eventually(o, testkit.Match("ours again", func(o client.Object) bool {
			return o.GetLabels()[sdk.ManagedByLabel] == "database" && metav1.IsControlledBy(o, db)
		}))
	}
	e.Eventually(db, testkit.Ready())
	password := secret("a-db-credentials")
	e.Get(password)
	e.patch(password.DeepCopy(), wipe)
	e.Eventually(db, testkit.Reason("Stalled", metav1.ConditionTrue, "ResourceConflict"),
		testkit.Condition("Available", metav1.ConditionTrue))
	e.patch(password.DeepCopy(), `{"metadata": {"annotations": {"`+adoption.Annotation+`": "a"}}}`)
	e.Eventually(db, testkit.Ready())
	e.Eventually(secret("a-db-credentials"), testkit.Match("the same passwords", func(s *corev1.Secret) bool {
		return s.UID == password.UID && string(s.Data["password"]) == string(password.Data["password"])
	}))
}

// Annotations of the Database are not copied, so that a large one multiplies nothing.
func largeAnnotations(e *tenancy) {
	const key = "evil.example/large"
	db := e.database("a", func(db *v1.Database) { db.Annotations = map[string]string{key: strings.Repeat("x", 200_000)} })
	e.Eventually(db, testkit.Ready())
	for _, o := range []client.Object{
		set("a-db"), pod("a-db-0"), service("a-db"), secret("a-db-credentials"), claim("data-a-db-0"),
	} {
		if e.Get(o); o.GetAnnotations()[key] != "" {
			e.t.Errorf("%T %s has the annotation", o, o.GetName())
		}
	}
}

func names(e *tenancy) {
	for _, name := range []string{strings.Repeat("a", 43), "1a", "a.b"} {
		if err := e.eve.Create(e.Context(), inNamespace(e.K, ownDatabase(name))); !apierrors.IsInvalid(err) {
			e.t.Errorf("the name %s is accepted: %v", name, err)
		}
	}
	db := e.database(strings.Repeat("a", 42))
	e.Eventually(db, testkit.Ready())
}

// No name of a child is that of a child of another Database.
func collidingNames(e *tenancy) {
	all := []*v1.Database{e.database("victim-db", func(db *v1.Database) { db.Spec.DeletionPolicy = v1.DeletionDelete })}
	for _, name := range []string{"victim-db-db", "victim-db-ro", "victim-db-0", "data-victim"} {
		all = append(all, e.database(name))
	}
	passwords := map[string]bool{}
	for _, db := range all {
		e.Eventually(db, testkit.Ready())
		password := secret(db.Name + "-db-credentials")
		e.Get(password)
		passwords[string(password.Data["password"])] = true
	}
	if len(passwords) != len(all) {
		e.t.Errorf("%d Databases have %d passwords", len(all), len(passwords))
	}
	e.delete(all[0])
	e.Eventually(all[0], testkit.Gone())
	e.Eventually(set("victim-db-db"), testkit.Gone())
	for _, db := range all[1:] {
		e.Eventually(db, testkit.Ready())
	}
}

// The Secret of another Database is used as any Secret that eve may read, and is not deleted with hers.
func borrowedCredentials(e *tenancy) {
	db := e.database("a", func(db *v1.Database) {
		db.Spec.CredentialsSecretRef = &v1.SecretReference{Name: "victim-db-credentials"}
		db.Spec.DeletionPolicy = v1.DeletionDelete
	})
	e.Eventually(db, testkit.Ready())
	e.delete(db)
	e.Eventually(db, testkit.Gone())
	e.Eventually(secret("a-db-credentials"), testkit.Gone())
}

// Annotations of the specification do not become marks of the operator.
func markedTemplates(e *tenancy) {
	marks := map[string]string{
		apply.OwnerAnnotation: "kube-system/x", apply.DigestAnnotation: "forged", adoption.Annotation: "victim",
		"techoral.com/pod-template": "{}", "techoral.com/inputs": "forged", sdk.PausedAnnotation: "true",
	}
	db := e.database("a", func(db *v1.Database) {
		db.Spec.Service.Annotations = marks
		db.Spec.PodTemplate = &v1.PodTemplate{Annotations: marks}
	})
	e.Eventually(db, testkit.Ready())
	waitIdle(e.K, e.op)
	e.Update(db, func() { db.Spec.Service.Type = corev1.ServiceTypeNodePort })
	e.Eventually(service("a-db"), testkit.Match("NodePort", func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeNodePort && metav1.IsControlledBy(s, db)
	}))
	e.delete(db)
	e.Eventually(db, testkit.Gone())
	e.Eventually(service("a-db"), testkit.Gone())
	e.Eventually(set("a-db"), testkit.Gone())
}

// Pod Security judges the pods by their namespace.
func privileges(e *tenancy) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	e.Update(namespace, func() { namespace.Labels["pod-security.kubernetes.io/enforce"] = "baseline" })
	db := e.database("a", func(db *v1.Database) {
		db.Spec.PodTemplate = &v1.PodTemplate{SecurityContext: &corev1.PodSecurityContext{
			Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}},
		}}
	})
	other := e.database("b")
	e.Eventually(other, testkit.Ready())
	e.Eventually(set("a-db"), testkit.Exists())
	e.Eventually(db, observedSpec(), state(v1.Provisioning), testkit.Condition("Available", metav1.ConditionFalse))
	e.Eventually(pod("a-db-0"), testkit.Gone())
}

// A lost Secret is not replaced by one with other passwords, and the rest of the Database can be deleted in any order.
func deletionOrder(e *tenancy) {
	db := e.database("a", func(db *v1.Database) { db.Spec.DeletionPolicy = v1.DeletionDelete })
	e.Eventually(db, testkit.Ready())
	e.delete(secret("a-db-credentials"))
	e.Eventually(db, testkit.Reason("Stalled", metav1.ConditionTrue, "CredentialsLost"))
	e.Eventually(secret("a-db-credentials"), testkit.Gone())
	e.delete(claim("data-a-db-0"))
	e.delete(set("a-db"))
	e.delete(service("a-db"))
	e.delete(db)
	for _, o := range []client.Object{db, set("a-db"), claim("data-a-db-0"), service("a-db"), secret("a-db-credentials")} {
		e.Eventually(o, testkit.Gone())
	}
}

// A Database that is created while the children of its predecessors are being deleted has one Secret and its own children.
func racingNames(e *tenancy) {
	policy := func(db *v1.Database) { db.Spec.DeletionPolicy = v1.DeletionDelete }
	for range 5 {
		former := e.database("a", policy)
		e.delete(former)
		e.Eventually(former, testkit.Gone())
	}
	db := e.database("a", policy)
	for _, o := range []client.Object{set("a-db"), secret("a-db-credentials")} {
		e.Eventually(o, testkit.Match("of the last one", func(o client.Object) bool {
			return metav1.IsControlledBy(o, db) || o.GetLabels()[apply.OwnerUIDLabel] == string(db.UID)
		}))
	}
	e.Eventually(db, testkit.Ready())
}

func pausedDatabase(e *tenancy) {
	db := e.database("a", func(db *v1.Database) { db.Annotations = map[string]string{sdk.PausedAnnotation: "true"} })
	e.Eventually(db, testkit.Condition("Paused", metav1.ConditionTrue))
	other := e.database("b")
	e.Eventually(other, testkit.Ready())
}
