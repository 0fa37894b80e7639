package immortalcontainer_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
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
		return errors.Join(eve.List(ctx, &v1alpha1.ImmortalContainerList{}, client.InNamespace(k.Namespace)),
			eve.List(ctx, &corev1.PodList{}, client.InNamespace(k.Namespace)),
			client.IgnoreAlreadyExists(eve.Create(ctx, &corev1.ConfigMap{ObjectMeta: in(k, "probe")}, client.DryRunAll)))
	})
	return eve
}

func in(k *testkit.K, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: k.Namespace, Name: name}
}

// attack is an attempt of a tenant to reach more with an ImmortalContainer than by herself.
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
		"another namespace":               otherNamespace,
		"the status":                      forgedStatus,
		"an image that no node can start": brokenImage,
		"a planted pod":                   plantedPod,
		"a second pod":                    secondPod,
		"a pod of another controller":     controlledPod,
		"a pod with our labels alone":     labeledPod,
		"a pod without its marks":         strippedPod,
		"a finalizer on the pod":          heldPod,
		"a deadline on the pod":           deadlineOnPod,
		"large annotations":               largeAnnotations,
		"the longest name":                longestName,
		"a name that is too long":         tooLongName,
		"a deletion while it is held":     orphanedPod,
		"a pause of the operator":         pausedContainer,
		"a forged owner elsewhere":        ownerElsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			start(k)
			try(t, k, newTenant(t, k))
		})
	}
}

func tenantContainer(k *testkit.K, name string) *v1alpha1.ImmortalContainer {
	ic := newContainer(name)
	ic.Namespace = k.Namespace
	return ic
}

func otherNamespace(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	ic.Namespace = "default"
	if err := eve.Create(k.Context(), ic); !apierrors.IsForbidden(err) {
		t.Errorf("eve may create an ImmortalContainer in another namespace: %v", err)
	}
}

func forgedStatus(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready(), starts(1))
	ic.Status.StartTimes = 5
	if err := eve.Status().Update(k.Context(), ic); !apierrors.IsForbidden(err) {
		t.Errorf("eve may write the status: %v", err)
	}
}

// The operator creates the pod, and Pod Security judges it by its namespace.
func TestPodSecurityHoldsForThePod(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("Pod Security refuses the pods", testkit.Forbidden))
	start(k)
	eve := newTenant(t, k)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	k.Update(namespace, func() { namespace.Labels["pod-security.kubernetes.io/enforce"] = "baseline" })
	privileged, host := tenantContainer(k, "a"), tenantContainer(k, "b")
	privileged.Spec.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	host.Spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/"},
	}}}
	for _, ic := range []*v1alpha1.ImmortalContainer{privileged, host} {
		mustCreate(t, k, eve, ic)
		k.Eventually(ic, testkit.Reason("Stalled", metav1.ConditionTrue, "PodRejected"), starts(0))
		k.Eventually(podOf(k, ic.Name), testkit.Gone())
	}
}

// An image that is no reference does not end the running container.
func brokenImage(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready())
	ic.Spec.Image = "NoSuch//image"
	if err := eve.Update(k.Context(), ic); !apierrors.IsInvalid(err) {
		t.Errorf("the image is accepted: %v", err)
	}
	k.Eventually(ic, testkit.Ready(), starts(1))
}

// forgedPod returns a pod with every mark of a child that eve can set.
func forgedPod(k *testkit.K, ic *v1alpha1.ImmortalContainer, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: in(k, name)}
	pod.Labels = map[string]string{sdk.ManagedByLabel: "immortalcontainer", sdk.InstanceLabel: ic.Name, "controller": ic.Name}
	pod.Annotations = map[string]string{
		apply.OwnerAnnotation: k.Namespace + "/" + ic.Name, "immortalcontainer.flugel.it/image": ic.Spec.Image,
	}
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "ImmortalContainer", Name: ic.Name, UID: ic.UID, Controller: new(true),
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "evil", Image: "evil:1"}}
	return pod
}

// A pod that eve creates under the name of the pod, with a reference to its owner, is replaced by the one that is specified.
func plantedPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	ic.Annotations = map[string]string{sdk.PausedAnnotation: "true"}
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Condition("Paused", metav1.ConditionTrue))
	mustCreate(t, k, eve, forgedPod(k, ic, "a-immortalpod"), client.FieldOwner("immortalcontainer"))
	k.Update(ic, func() { ic.Annotations = nil })
	k.Eventually(podOf(k, "a"), testkit.Match("ours", func(p *corev1.Pod) bool {
		return len(p.Spec.Containers) == 1 && p.Spec.Containers[0].Image == ic.Spec.Image
	}))
	k.Eventually(ic, testkit.Ready())
}

// A further pod with a reference to its owner is not part of the plan, and is deleted.
func secondPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready())
	second := forgedPod(k, ic, "second")
	mustCreate(t, k, eve, second)
	k.Eventually(second, testkit.Gone())
	k.Eventually(ic, testkit.Ready(), starts(1))
}

func controlledPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: in(k, "owner")}
	mustCreate(t, k, eve, owner)
	ic := tenantContainer(k, "a")
	pod := forgedPod(k, ic, "a-immortalpod")
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, Controller: new(true),
	}}
	mustCreate(t, k, eve, pod)
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Reason("Ready", metav1.ConditionFalse, "PodNameConflict"), starts(0))
	k.Eventually(pod, testkit.Match("theirs", func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == "evil:1" }))
}

// Labels and annotations without a controller reference make no child.
func labeledPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	pod := forgedPod(k, ic, "a-immortalpod")
	pod.OwnerReferences = nil
	mustCreate(t, k, eve, pod, client.FieldOwner("immortalcontainer"))
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Reason("Ready", metav1.ConditionFalse, "PodNameConflict"), starts(0))
	if err := eve.Delete(k.Context(), ic); err != nil {
		t.Fatal(err)
	}
	k.Eventually(ic, testkit.Gone())
	k.Eventually(pod, testkit.Exists())
}

// Without its label the pod is not in the operator's cache. It is found by its name, and there is no second one.
func strippedPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready(), starts(1))
	pod := podOf(k, "a")
	wipe := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": null, "managedFields": [{}]}}`))
	if err := eve.Patch(k.Context(), pod, wipe); err != nil {
		t.Fatal(err)
	}
	k.Eventually(pod, testkit.Match("ours again", func(p *corev1.Pod) bool {
		return p.Labels[sdk.ManagedByLabel] == "immortalcontainer" && metav1.IsControlledBy(p, ic)
	}))
	k.Eventually(ic, testkit.Ready())
}

// A pod that cannot be deleted holds up its own ImmortalContainer only.
func heldPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready())
	pod := podOf(k, "a")
	k.Update(pod, func() { pod.Finalizers = append(pod.Finalizers, "evil.example/held") })
	if err := eve.Delete(k.Context(), ic); err != nil {
		t.Fatal(err)
	}
	k.Eventually(ic, testkit.Gone())
	other := tenantContainer(k, "b")
	mustCreate(t, k, eve, other)
	k.Eventually(other, testkit.Ready())
	k.Update(pod, func() { pod.Finalizers = nil })
}

// A pod that another client ends by a deadline is replaced and counted.
func deadlineOnPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready(), starts(1))
	pod := podOf(k, "a")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"activeDeadlineSeconds": 1}}`))
	if err := eve.Patch(k.Context(), pod, patch); err != nil {
		t.Fatal(err)
	}
	if err := eve.Delete(k.Context(), pod); err != nil {
		t.Fatal(err)
	}
	k.Eventually(ic, testkit.Ready(), starts(2))
	k.Eventually(pod, testkit.Match("no deadline", func(p *corev1.Pod) bool { return p.Spec.ActiveDeadlineSeconds == nil }))
}

func largeAnnotations(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	ic.Annotations = map[string]string{"evil.example/large": strings.Repeat("x", 200_000)}
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready())
	k.Eventually(podOf(k, "a"), testkit.Match("no copy", func(p *corev1.Pod) bool {
		return p.Annotations["evil.example/large"] == ""
	}))
}

func longestName(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, strings.Repeat("a", 51))
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready())
}

func tooLongName(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	if err := eve.Create(k.Context(), tenantContainer(k, strings.Repeat("a", 52))); !apierrors.IsInvalid(err) {
		t.Errorf("a name of 52 characters is accepted: %v", err)
	}
}

// An orphaned pod is a plain pod: the operator neither replaces nor deletes it.
func orphanedPod(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	ic.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready())
	if err := eve.Delete(k.Context(), ic); err != nil {
		t.Fatal(err)
	}
	k.Eventually(ic, testkit.Gone())
	k.Eventually(podOf(k, "a"), testkit.Match("orphaned", func(p *corev1.Pod) bool {
		return len(p.OwnerReferences) == 0 && p.DeletionTimestamp == nil
	}))
}

func pausedContainer(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic, other := tenantContainer(k, "a"), tenantContainer(k, "b")
	ic.Annotations = map[string]string{sdk.PausedAnnotation: "true"}
	mustCreate(t, k, eve, ic)
	mustCreate(t, k, eve, other)
	k.Eventually(ic, testkit.Condition("Paused", metav1.ConditionTrue))
	k.Eventually(other, testkit.Ready())
}

// The name of an owner in an annotation is no way to another namespace.
func ownerElsewhere(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	ic := tenantContainer(k, "a")
	pod := forgedPod(k, ic, "forged")
	pod.OwnerReferences = nil
	pod.Labels[apply.OwnerUIDLabel] = "00000000-0000-0000-0000-000000000000"
	pod.Annotations[apply.OwnerAnnotation] = "kube-system/victim"
	mustCreate(t, k, eve, pod)
	mustCreate(t, k, eve, ic)
	k.Eventually(ic, testkit.Ready(), starts(1))
	k.Eventually(pod, testkit.Exists())
}
