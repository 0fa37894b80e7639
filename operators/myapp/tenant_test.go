package myapp_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/testkit"
)

// newTenant returns a client of the user eve. In the test's namespace she has the cluster's edit role and the roles that
// this operator adds to it; elsewhere she has none.
func newTenant(t *testing.T, k *testkit.K) client.Client {
	t.Helper()
	shipped := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "shipped"}}
	for _, file := range []string{"config/access/edit_role.yaml", "config/access/view_role.yaml"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(raw, role); err != nil {
			t.Fatal(err)
		}
		shipped.Rules = append(shipped.Rules, role.Rules...)
	}
	k.Apply(shipped)
	for name, ref := range map[string]rbacv1.RoleRef{
		"shipped": {APIGroup: rbacv1.GroupName, Kind: "Role", Name: "shipped"},
		"edit":    {APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit"},
		"view":    {APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view"},
	} {
		k.Apply(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref,
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
		return errors.Join(eve.List(ctx, &v1.MyAppList{}, client.InNamespace(k.Namespace)),
			eve.List(ctx, &appsv1.DeploymentList{}, client.InNamespace(k.Namespace)),
			client.IgnoreAlreadyExists(eve.Create(ctx, &corev1.ConfigMap{ObjectMeta: in(k, "probe")}, client.DryRunAll)))
	})
	return eve
}

func in(k *testkit.K, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: k.Namespace, Name: name}
}

// tenantApp returns an app without a volume in the test's namespace.
func tenantApp(k *testkit.K, name string) *v1.MyApp {
	app := newMyApp(name)
	app.Namespace = k.Namespace
	app.Spec.Storage.Enabled = new(false)
	return app
}

// attack is an attempt of a tenant to reach more with a MyApp than by herself.
type attack func(t *testing.T, k *testkit.K, eve client.Client)

func mustCreate(t *testing.T, k *testkit.K, eve client.Client, o client.Object, opts ...client.CreateOption) {
	t.Helper()
	o.SetNamespace(k.Namespace)
	if err := eve.Create(k.Context(), o, opts...); err != nil {
		t.Fatal(err)
	}
}

// A tenant with the shipped roles in one namespace gets nothing done by the operator that she may not do herself.
func TestTenant(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]attack{
		"another namespace":                  otherNamespace,
		"the status":                         forgedStatus,
		"privileges against Pod Security":    podSecurity,
		"a claim in another namespace":       claimElsewhere,
		"a planted Deployment":               plantedDeployment,
		"a Deployment of another controller": controlledDeployment,
		"a planted Service":                  plantedService,
		"a finalizer on a child":             heldChild,
		"children without their marks":       strippedMarks,
		"an owner in another namespace":      forgedOwner,
		"large annotations":                  largeAnnotations,
		"the longest name":                   longestName,
		"a name that is too long":            tooLongName,
		"configuration in a path":            injectedPath,
		"labels of another app":              borrowedLabels,
		"the host of another app":            sharedHost,
		"a pod that claims to belong":        forgedPod,
		"a pause of the operator":            pausedApp,
		"a loop of two owners":               ownersInALoop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			start(k)
			try(t, k, newTenant(t, k))
		})
	}
}

func otherNamespace(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	app.Namespace = "default"
	if err := eve.Create(k.Context(), app); !apierrors.IsForbidden(err) {
		t.Errorf("eve may create a MyApp in another namespace: %v", err)
	}
}

func forgedStatus(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
	app.Status.URL = "http://evil.example"
	if err := eve.Status().Update(k.Context(), app); !apierrors.IsForbidden(err) {
		t.Errorf("eve may write the status: %v", err)
	}
}

func podSecurity(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	k.Update(namespace, func() { namespace.Labels["pod-security.kubernetes.io/enforce"] = "baseline" })
	app := tenantApp(k, "a")
	app.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec": {"hostNetwork": true, "hostPID": true, "containers": [
		{"name": "app-container", "securityContext": {"privileged": true}}]}}`)}
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "FailedCreate"))
	pods := &corev1.PodList{}
	if err := k.Client.List(k.Context(), pods, client.InNamespace(k.Namespace)); err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods were created, error %v", len(pods.Items), err)
	}
}

func claimElsewhere(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	for _, name := range []string{"default/data", "../data", "data?watch=1", "DATA"} {
		app := tenantApp(k, "a")
		app.Spec.Storage = v1.Storage{ExistingClaim: name}
		if err := eve.Create(k.Context(), app); !apierrors.IsInvalid(err) {
			t.Errorf("claim %q is accepted: %v", name, err)
		}
	}
}

// planted returns a Deployment with every mark of a child that eve can set.
func planted(k *testkit.K, app *v1.MyApp, name string) *appsv1.Deployment {
	d := foreignDeployment(name)
	d.ObjectMeta = in(k, name)
	d.Labels = map[string]string{sdk.ManagedByLabel: "myapp", sdk.InstanceLabel: app.Name, "app": app.Name}
	d.Annotations = map[string]string{apply.OwnerAnnotation: k.Namespace + "/" + app.Name, apply.DigestAnnotation: "forged"}
	d.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion.String(), Kind: "MyApp", Name: app.Name, UID: app.UID, Controller: new(true),
	}}
	return d
}

// A planted child that the plan has not is pruned, as any child; it runs nothing for long.
func plantedDeployment(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
	mustCreate(t, k, eve, planted(k, app, "other"))
	k.Eventually(deployment("other"), testkit.Gone())
	k.Eventually(app, testkit.Ready())
}

func controlledDeployment(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: in(k, "owner")}
	mustCreate(t, k, eve, owner)
	theirs := foreignDeployment("a")
	theirs.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: new(true),
	}}
	mustCreate(t, k, eve, theirs)
	app := tenantApp(k, "a")
	app.Annotations = map[string]string{myapp.AdoptAnnotation: "true", myapp.RecreateAnnotation: "true"}
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"))
	k.Eventually(deployment("a"), image("theirs:1"))
}

// Marks without a controller reference make no child.
func plantedService(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	theirs := service("a")
	theirs.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	theirs.Spec.Selector = map[string]string{"of": "another"}
	theirs.Labels = map[string]string{sdk.ManagedByLabel: "myapp", sdk.InstanceLabel: "a"}
	theirs.Annotations = map[string]string{apply.OwnerAnnotation: k.Namespace + "/a", "meta.helm.sh/release-name": "a"}
	mustCreate(t, k, eve, theirs, client.FieldOwner("myapp"))
	app := tenantApp(k, "a")
	app.Spec.Service.Enabled = true
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"))
	if err := eve.Delete(k.Context(), app); err != nil {
		t.Fatal(err)
	}
	k.Eventually(app, testkit.Gone())
	k.Eventually(theirs, testkit.Match("theirs", func(s *corev1.Service) bool { return s.Spec.Selector["of"] == "another" }))
}

// A child that cannot be deleted holds up neither the app nor others.
func heldChild(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
	set := deployment("a")
	k.Get(set)
	set.Finalizers = []string{"evil.example/held"}
	if err := eve.Update(k.Context(), set); err != nil {
		t.Fatal(err)
	}
	if err := eve.Delete(k.Context(), app); err != nil {
		t.Fatal(err)
	}
	k.Eventually(app, testkit.Gone())
	other := tenantApp(k, "b")
	mustCreate(t, k, eve, other)
	k.Eventually(other, testkit.Ready())
	k.Update(set, func() { set.Finalizers = nil })
}

func strippedMarks(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
	set := deployment("a")
	set.Namespace = k.Namespace
	wipe := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": null, "managedFields": [{}]},
		"spec": {"template": {"spec": {"hostPID": true}}}}`))
	if err := eve.Patch(k.Context(), set, wipe); err != nil {
		t.Fatal(err)
	}
	k.Eventually(set, testkit.Match("ours again", func(d *appsv1.Deployment) bool {
		return d.Labels[sdk.ManagedByLabel] == "myapp" && metav1.IsControlledBy(d, app) && !d.Spec.Template.Spec.HostPID
	}))
	k.Eventually(app, testkit.Ready())
}

// The name of an owner in an annotation is no way to another namespace.
func forgedOwner(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	d := planted(k, tenantApp(k, "victim"), "a")
	d.OwnerReferences = nil
	d.Labels[apply.OwnerUIDLabel] = "00000000-0000-0000-0000-000000000000"
	d.Annotations[apply.OwnerAnnotation] = "kube-system/victim"
	mustCreate(t, k, eve, d)
	app := tenantApp(k, "b")
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
	k.Eventually(d, image("theirs:1"))
}

// Annotations of the app are not copied, so that a large one multiplies nothing.
func largeAnnotations(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	app.Annotations = map[string]string{"evil.example/large": strings.Repeat("x", 200_000)}
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
	k.Eventually(deployment("a"), testkit.Match("no copy", func(d *appsv1.Deployment) bool {
		return d.Annotations["evil.example/large"] == "" && d.Spec.Template.Annotations["evil.example/large"] == ""
	}))
}

func longestName(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, strings.Repeat("a", 63))
	app.Spec.Storage = v1.Storage{}
	app.Spec.Service.Enabled = true
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
}

func tooLongName(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	if err := eve.Create(k.Context(), tenantApp(k, strings.Repeat("a", 64))); !apierrors.IsInvalid(err) {
		t.Errorf("a name of 64 characters is accepted: %v", err)
	}
}

func injectedPath(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	for _, path := range []string{"/x{}\n location /evil", "/x;", "/$request", "/x y", `/"`, "/x\\", "/(a|b)"} {
		app := tenantApp(k, "a")
		app.Spec.Service.Enabled = true
		app.Spec.Ingress = v1.Ingress{Enabled: true, Host: "a.example", Path: path}
		if err := eve.Create(k.Context(), app); !apierrors.IsInvalid(err) {
			t.Errorf("path %q is accepted: %v", path, err)
		}
	}
}

// The labels that select pods are the operator's: an app cannot take the traffic of another one.
func borrowedLabels(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	app.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"metadata": {"labels": {
		"app": "victim", "app.kubernetes.io/instance": "victim", "app.kubernetes.io/managed-by": "other"}}}`)}
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
	k.Eventually(deployment("a"), testkit.Match("our labels", func(d *appsv1.Deployment) bool {
		l := d.Spec.Template.Labels
		return l["app"] == "a" && l[sdk.InstanceLabel] == "a" && l[sdk.ManagedByLabel] == "myapp"
	}))
}

// A pod with the labels of the app's pods is only read: a message about it names it, and nothing is written.
func forgedPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Ready())
	pod := &corev1.Pod{ObjectMeta: in(k, "forged")}
	pod.Labels = map[string]string{sdk.ManagedByLabel: "myapp", sdk.InstanceLabel: "a"}
	pod.Spec.Containers = []corev1.Container{{Name: "app-container", Image: "does-not-exist:1"}}
	mustCreate(t, k, eve, pod)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ImagePullBackOff"))
	k.Eventually(pod, testkit.Exists())
	if err := eve.Delete(k.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	k.Eventually(app, testkit.Ready())
}

// A pause is a wish of the app's owner, and concerns this app alone.
func pausedApp(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	app := tenantApp(k, "a")
	app.Annotations = map[string]string{sdk.PausedAnnotation: "true"}
	mustCreate(t, k, eve, app)
	k.Eventually(app, testkit.Condition("Paused", metav1.ConditionTrue))
	other := tenantApp(k, "b")
	mustCreate(t, k, eve, other)
	k.Eventually(other, testkit.Ready())
}

// Two apps that own each other are reconciled, and garbage collection alone decides about them.
func ownersInALoop(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	a, b := tenantApp(k, "a"), tenantApp(k, "b")
	mustCreate(t, k, eve, a)
	b.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: "MyApp", Name: "a", UID: a.UID}}
	mustCreate(t, k, eve, b)
	k.Eventually(a, testkit.Ready()) // an app is not ready before one that it owns: an oracle checks it
	k.Update(a, func() {
		a.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion.String(), Kind: "MyApp", Name: "b", UID: b.UID, Controller: new(true),
		}}
	})
	k.Eventually(a, testkit.Ready())
	k.Eventually(b, testkit.Ready())
}
