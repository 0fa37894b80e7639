package database_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/testkit"
)

// tenancy is a namespace of user eve, in which another team runs the Database victim.
type tenancy struct {
	*testkit.K

	t      *testing.T
	op     *testkit.Instance // of Databases
	eve    client.Client
	victim *v1.Database
}

// attack is an attempt of eve to reach more with a Database or a DBSnapshot than by herself.
type attack func(*tenancy)

// editorAttacks are those of a user with the cluster's role edit and the roles that this operator adds to it.
var editorAttacks = map[string]attack{
	"another namespace and names":   inTurn(otherNamespace, names),
	"the status":                    forgedStatus,
	"a planted Secret":              plantedSecret,
	"a planted ConfigMap":           plantedConfigMap,
	"a forged field manager":        forgedManager,
	"a forged owner reference":      forgedOwner,
	"an owner in another namespace": ownerElsewhere,
	"a forged member":               forgedMember,
	"a finalizer on a child":        heldChildren,
	"children without their marks":  strippedMarks,
	"large annotations":             largeAnnotations,
	"names that collide":            collidingNames,
	"the credentials of another":    borrowedCredentials,
	"marks on Services and pods":    markedTemplates,
	"privileges":                    privileges,
	"a deletion in another order":   deletionOrder,
	"creations and deletions":       racingNames,
	"a pause":                       pausedDatabase,
}

// creatorAttacks are those of a user with the roles of this operator alone. The operator of DBSnapshots runs, too.
var creatorAttacks = map[string]attack{
	"a release of that name":      takenRelease,
	"a copy in the claim of data": copyIntoData,
	"the password of another":     borrowedPassword,
	"the dumps of another":        borrowedDumps,
	"what is refused":             inTurn(brokenImage, copyInSeries, unreadable),
	"references with a path":      pathReferences,
	"a copy that is not a copy":   unknownCopy,
	"more than the quota":         exhaustedQuota,
}

// inTurn makes one attack of several cheap ones.
func inTurn(attacks ...attack) attack {
	return func(e *tenancy) {
		for _, attack := range attacks {
			attack(e)
		}
	}
}

// A tenant with the shipped roles in one namespace gets nothing done by the operator that she may not do herself, and the
// Database of another team works on.
func TestTenant(t *testing.T) {
	t.Parallel()
	for name, try := range editorAttacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newTenancy(t, "system:aggregate-to-edit", "system:aggregate-to-view").try(try)
		})
	}
	for name, try := range creatorAttacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newTenancy(t).try(try)
		})
	}
}

func newTenancy(t *testing.T, roles ...string) *tenancy {
	t.Helper()
	k := testkit.New(t, testkit.WithoutOracles("quotas and Pod Security refuse objects", testkit.Forbidden))
	e := &tenancy{K: k, t: t, op: start(k), eve: newTenant(t, k, roles...), victim: newDatabase("victim")}
	e.victim.Spec.Replicas = new(int32(1))
	if len(roles) == 0 {
		k.Run(database.NewSnapshots(database.Options{}))
	}
	k.Apply(e.victim)
	k.Eventually(e.victim, testkit.Ready())
	return e
}

// try makes the attack and checks that the victim is as it was.
func (e *tenancy) try(attack attack) {
	e.t.Helper()
	before := e.victimObjects()
	attack(e)
	if diff := cmp.Diff(before, e.victimObjects()); diff != "" {
		e.t.Errorf("the objects of the victim have changed (-before +after):\n%s", diff)
	}
	e.Update(e.victim, func() { e.victim.Spec.Backup.Suspend = true })
	e.Eventually(e.victim, testkit.Ready(), members(1), observedSpec())
}

// victimObjects returns the content of the victim's objects.
func (e *tenancy) victimObjects() map[string]any {
	e.t.Helper()
	return e.contents(set("victim-db"), pod("victim-db-0"), secret("victim-db-credentials"), claim("data-victim-db-0"),
		claim("victim-db-backup"), service("victim-db"), service("victim-db-ro"), service("victim-db-hl"))
}

// contents returns what an operator could change in these objects.
func (e *tenancy) contents(objects ...client.Object) map[string]any {
	e.t.Helper()
	all := map[string]any{}
	for _, o := range objects {
		kind, err := apiutil.GVKForObject(o, e.Client.Scheme())
		if err != nil {
			e.t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		u.SetName(o.GetName())
		e.Get(u)
		unstructured.RemoveNestedField(u.Object, "spec", "volumeName") // its controller sets it some time
		all[kind.Kind+" "+o.GetName()] = map[string]any{
			"uid": u.GetUID(), "deleted": u.GetDeletionTimestamp() != nil, "labels": u.GetLabels(),
			"owners": u.GetOwnerReferences(), "spec": u.Object["spec"], "data": u.Object["data"],
		}
	}
	return all
}

// newTenant returns a client of user eve, who has the operator's roles and these in the test's namespace and nowhere else.
func newTenant(t *testing.T, k *testkit.K, roles ...string) client.Client {
	t.Helper()
	shipped := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "shipped"}}
	for _, file := range []string{"config/access/edit_role.yaml", "config/access/view_role.yaml"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict(raw, role); err != nil {
			t.Fatal(err)
		}
		shipped.Rules = append(shipped.Rules, role.Rules...)
	}
	k.Apply(shipped)
	refs := []rbacv1.RoleRef{{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "shipped"}}
	for _, name := range roles {
		refs = append(refs, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name})
	}
	for _, ref := range refs {
		k.Apply(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "eve-" + ref.Name}, RoleRef: ref,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "eve"}},
		})
	}
	cfg := rest.CopyConfig(k.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "eve"}
	eve, err := client.New(cfg, client.Options{Scheme: k.Client.Scheme(), Mapper: k.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	k.Wait("eve has her roles", func(ctx context.Context) error {
		here := client.InNamespace(k.Namespace)
		err := errors.Join(eve.List(ctx, &v1.DatabaseList{}, here),
			eve.Create(ctx, inNamespace(k, newDatabase("probe")), client.DryRunAll))
		if len(roles) > 0 {
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
			err = errors.Join(err, eve.List(ctx, &appsv1.StatefulSetList{}, here),
				eve.Create(ctx, inNamespace(k, probe), client.DryRunAll))
		}
		return err
	})
	return eve
}

func inNamespace[C client.Object](k *testkit.K, o C) C {
	o.SetNamespace(k.Namespace)
	return o
}

// create creates an object as eve.
func (e *tenancy) create(o client.Object, opts ...client.CreateOption) {
	e.t.Helper()
	if err := e.eve.Create(e.Context(), inNamespace(e.K, o), opts...); err != nil {
		e.t.Fatal(err)
	}
}

// delete deletes an object as eve.
func (e *tenancy) delete(o client.Object) {
	e.t.Helper()
	if err := e.eve.Delete(e.Context(), inNamespace(e.K, o)); err != nil {
		e.t.Fatal(err)
	}
}

// database creates a Database of eve with one member.
func (e *tenancy) database(name string, change ...func(*v1.Database)) *v1.Database {
	e.t.Helper()
	db := ownDatabase(name)
	for _, f := range change {
		f(db)
	}
	e.create(db)
	return db
}

func ownDatabase(name string) *v1.Database {
	db := newDatabase(name)
	db.Spec.Replicas = new(int32(1))
	db.Spec.BackupEnabled = new(false)
	return db
}

// mark sets every mark of a child that eve can set.
func (e *tenancy) mark(o client.Object, db *v1.Database) {
	labels := map[string]string{
		sdk.ManagedByLabel: "database", sdk.InstanceLabel: db.Name, "app": db.Name, "managed-by": "database-operator",
	}
	maps.Copy(labels, o.GetLabels())
	o.SetLabels(labels)
	o.SetAnnotations(map[string]string{
		apply.OwnerAnnotation: e.Namespace + "/" + db.Name, apply.DigestAnnotation: "forged", "meta.helm.sh/release-name": "a",
	})
}

// childOf returns the owner reference of a child.
func childOf(db *v1.Database) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion.String(), Kind: "Database", Name: db.Name, UID: db.UID, Controller: new(true),
	}}
}
