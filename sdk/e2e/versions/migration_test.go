package versions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/conversion/migration"
	"github.com/homeostat-dev/homeostat/testkit"
)

const objects = 12

// account returns the configuration of a user with the rights that package migration documents.
func (d *kind) account() *rest.Config {
	d.t.Helper()
	name := d.Namespace + "-migrator"
	d.Apply(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"},
				ResourceNames: []string{d.crd.Name}, Verbs: []string{"list", "watch"},
			},
			{
				APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions/status"},
				ResourceNames: []string{d.crd.Name}, Verbs: []string{"patch"},
			},
			{APIGroups: []string{d.group}, Resources: []string{"gates"}, Verbs: []string{"get", "list", "patch"}},
		},
	})
	d.Apply(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: name}},
	})
	cfg := rest.CopyConfig(d.Config)
	cfg.Impersonate.UserName = name
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	d.Wait("the rights of "+name, func(ctx context.Context) error { return c.List(ctx, d.list("v1beta1")) })
	return cfg
}

// filled returns a kind with objects that are stored in v1alpha1, after v1beta1 has become the storage version.
func filled(t *testing.T, opts ...testkit.Option) *kind {
	t.Helper()
	d := install(t, testkit.New(t, opts...))
	for i := range objects {
		d.create("v1alpha1", fmt.Sprintf("gate-%02d", i), map[string]any{"size": fmt.Sprintf("%dGi", i+1), "color": "red"})
	}
	d.create("v1alpha1", "probe", map[string]any{})
	d.store("v1beta1")
	d.waitStorage("probe")
	return d
}

// waitStorage waits until the API server stores objects in another version than that of an object, and deletes the object.
func (d *kind) waitStorage(name string) {
	d.t.Helper()
	u := d.get("v1beta1", name)
	before := u.GetResourceVersion()
	d.Wait("the storage version", func(ctx context.Context) error {
		if err := d.Client.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte("{}"))); err != nil {
			return err
		}
		if u.GetResourceVersion() == before {
			return errors.New("it has not changed")
		}
		return nil
	})
	d.Delete(u)
}

func (d *kind) migrate(m migration.Migrator, cfg *rest.Config, opts ...testkit.StartOption) *testkit.Instance {
	d.t.Helper()
	m.CRDs = []string{d.crd.Name}
	return d.Start(m.SetupWithManager, append(opts, testkit.WithConfig(cfg))...)
}

// waitCondition waits until the condition has a reason, and its message contains a text.
func (d *kind) waitCondition(reason, text string) {
	d.t.Helper()
	d.Wait("condition "+reason, func(ctx context.Context) error {
		if err := d.Client.Get(ctx, client.ObjectKeyFromObject(d.crd), d.crd); err != nil {
			return err
		}
		for _, c := range d.crd.Status.Conditions {
			if c.Type == migration.ConditionType && c.Reason == reason && strings.Contains(c.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", d.crd.Status.Conditions)
	})
}

func (d *kind) requireStored(versions ...string) {
	d.t.Helper()
	d.K.Get(d.crd)
	if got := d.crd.Status.StoredVersions; !slices.Equal(got, versions) {
		d.t.Errorf("the stored versions are %v, not %v", got, versions)
	}
}

// patched returns the names of the objects that an instance has patched with success.
func patched(op *testkit.Instance) []string {
	var names []string
	for _, r := range op.Requests() {
		if r.Verb == "patch" && r.Resource == "gates" && r.Code == http.StatusOK {
			names = append(names, r.Name)
		}
	}
	return names
}

// The process ends in the middle. The next one rewrites only the other objects, and sends nothing when all are rewritten.
func TestMigrationContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	d := filled(t)
	d.requireStored("v1alpha1", "v1beta1")
	cfg := d.account()
	var sent atomic.Int64
	crashed := make(chan struct{})
	first := d.migrate(migration.Migrator{PerSecond: 1000, Delay: -1}, cfg, testkit.WithTransport(after(&sent, 5, crashed)))
	select {
	case <-crashed:
	case <-t.Context().Done():
	}
	first.Kill()
	d.waitCondition(migration.ReasonMigrating, fmt.Sprintf("0 of %d objects are rewritten in v1beta1, since", objects))
	d.requireStored("v1alpha1", "v1beta1")

	second := d.migrate(migration.Migrator{PerSecond: 1000, Delay: -1}, cfg)
	d.waitCondition(migration.ReasonMigrated, "all objects are stored in v1beta1")
	d.requireStored("v1beta1")
	once, again := patched(first), patched(second)
	for _, name := range again {
		if slices.Contains(once, name) {
			t.Errorf("%s was rewritten twice", name)
		}
	}
	if len(once) != 5 || len(once)+len(again) != objects {
		t.Errorf("the first process has rewritten %v, the second one %v", once, again)
	}
	if err := second.Recorder().WaitIdle(t.Context(), 300*time.Millisecond); err != nil {
		t.Error(err)
	}
	second.Recorder().Reset()
	d.Update(d.crd, func() { d.crd.Labels = map[string]string{"a": "b"} })
	if err := second.Recorder().WaitIdle(t.Context(), 300*time.Millisecond); err != nil || len(second.Requests()) > 0 {
		t.Errorf("%v; requests at rest: %v", err, second.Requests())
	}
	d.requireContent("v1alpha1", "gate-03", `{"spec":{"color":"red","size":"4Gi"}}`)

	// v1alpha1 may be removed now.
	d.Update(d.crd, func() { d.crd.Spec.Versions = d.crd.Spec.Versions[1:] })
	d.requireContent("v1beta1", "gate-03", `{"spec":{"sizeGi":4}}`)
}

// after returns a transport that loses all requests after a number of patches of objects.
func after(sent *atomic.Int64, n int64, crashed chan struct{}) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/gates/") && sent.Add(1) == n+1 {
				close(crashed)
			}
			if sent.Load() > n {
				return nil, errors.New("the process has crashed")
			}
			return next.RoundTrip(req)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// An object that admission does not let through keeps the old version in the status, until it can be written.
func TestObjectThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	d := filled(t, testkit.WithoutOracles("the test denies a write", "forbidden"))
	d.deny("gate-07")
	op := d.migrate(migration.Migrator{PerSecond: 1000, Delay: -1}, d.account())
	d.waitCondition(migration.ReasonFailed, fmt.Sprintf("%d of %d objects are rewritten in v1beta1; 1 failed: %s/gate-07: ",
		objects-1, objects, d.Namespace))
	d.requireStored("v1alpha1", "v1beta1")
	d.allow()
	d.waitCondition(migration.ReasonMigrated, "")
	d.requireStored("v1beta1")
	if names := patched(op); len(names) != objects {
		t.Errorf("these objects were rewritten: %v", names)
	}
}

func (d *kind) policy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: d.Namespace + "-deny"}}
}

// deny lets admission reject all changes of an object.
func (d *kind) deny(name string) {
	d.t.Helper()
	p := d.policy()
	p.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{d.group}, APIVersions: []string{"*"}, Resources: []string{"gates"},
					},
				},
			}},
		},
		Validations: []admissionregistrationv1.Validation{{
			Expression: fmt.Sprintf("object.metadata.name != %q", name), Message: "it is locked",
			Reason: new(metav1.StatusReasonForbidden),
		}},
	}
	d.Apply(p)
	d.Apply(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: p.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
	d.Wait("the policy", func(ctx context.Context) error {
		u := d.get("v1beta1", name)
		if err := d.Client.Update(ctx, u, client.DryRunAll); err == nil {
			return errors.New("the object can be written")
		}
		return nil
	})
}

func (d *kind) allow() { d.Delete(d.policy()) }

// The migration waits until all API servers know the storage version, and reports that.
func TestMigrationWaitsForAllAPIServers(t *testing.T) {
	t.Parallel()
	d := filled(t)
	op := d.migrate(migration.Migrator{PerSecond: 1000, Delay: time.Hour}, d.account())
	d.waitCondition(migration.ReasonWaiting, "the objects will be rewritten in v1beta1")
	if err := op.Recorder().WaitIdle(t.Context(), 300*time.Millisecond); err != nil {
		t.Error(err)
	}
	if names := patched(op); names != nil {
		t.Errorf("these objects were rewritten: %v", names)
	}
	d.requireStored("v1alpha1", "v1beta1")
	d.store("v1alpha1") // before the migration: the time begins again
	d.waitCondition(migration.ReasonWaiting, "the objects will be rewritten in v1alpha1")
}

// Nothing is written for a kind that needs no migration.
func TestNothingToMigrate(t *testing.T) {
	t.Parallel()
	d := install(t, testkit.New(t))
	op := d.migrate(migration.Migrator{}, d.account())
	if err := op.Recorder().WaitIdle(t.Context(), 300*time.Millisecond); err != nil {
		t.Error(err)
	}
	if writes := op.Recorder().Writes(); len(writes) > 0 {
		t.Errorf("these requests were sent: %v", writes)
	}
	d.K.Get(d.crd)
	if slices.ContainsFunc(d.crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == migration.ConditionType
	}) {
		t.Error("there is a condition")
	}
}

// A dry run says what is to be rewritten, and writes nothing.
func TestDryRunOfAMigration(t *testing.T) {
	t.Parallel()
	d := filled(t)
	cfg, requests := d.Record(d.account())
	m := &migration.Migrator{CRDs: []string{d.crd.Name}}
	prints := func(want string) {
		t.Helper()
		var out strings.Builder
		if err := m.DryRun(t.Context(), cfg, nil, &out); err != nil || out.String() != d.crd.Name+": "+want+"\n" {
			t.Errorf("%v; printed %q, want %q", err, out.String(), want)
		}
	}
	prints("objects that are stored in v1alpha1 would be rewritten in v1beta1")
	d.requireStored("v1alpha1", "v1beta1")
	d.migrate(migration.Migrator{PerSecond: 1000, Delay: -1}, d.account())
	d.waitCondition(migration.ReasonMigrated, "")
	prints("nothing would be rewritten: all objects are stored in v1beta1")
	for _, r := range requests.Requests() {
		if r.IsWrite() {
			t.Errorf("the dry run has sent %s", r)
		}
	}
}
