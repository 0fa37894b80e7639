package myapp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// foreignClaim returns a claim that the operator does not own.
func foreignClaim(name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	c := claim(name)
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
	return c
}

// foreignDeployment returns a Deployment that the operator does not own.
func foreignDeployment(name string) *appsv1.Deployment {
	d := deployment(name)
	d.Spec.Replicas = new(int32(1))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "another"}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "theirs", Image: "theirs:1"}}
	return d
}

func message(want string) testkit.Check {
	return testkit.Match("message "+want, func(o *v1.MyApp) bool { return o.Status.Message == want })
}

// A foreign claim with the name of ours is not mounted, because its data are not for this app.
func TestForeignClaimIsNotMounted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	data := foreignClaim("a-data", corev1.ReadWriteOnce)
	k.Apply(data)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"), phase(v1.PhaseFailed),
		child("PersistentVolumeClaim", "a-data", "ResourceConflict"), child("Deployment", "a", "Progressing"))
	waitIdle(k, op)
	k.Eventually(deployment("a"), testkit.Gone())
	k.Delete(data)
	k.Eventually(app, testkit.Ready(), pods(1))
}

// Pods do not start without their volume. The article names this pitfall.
func TestQuotaOfClaims(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("a quota refuses the claim", testkit.Forbidden))
	start(k)
	none := quota(k, "persistentvolumeclaims")
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "PersistentVolumeClaimRejected"), phase(v1.PhaseFailed))
	k.Eventually(deployment("a"), testkit.Gone())
	k.Delete(none)
	k.Eventually(app, testkit.Ready(), pods(1))
}

// Without pods the Deployment has the reason.
func TestQuotaOfPods(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	none := quota(k, "pods")
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "FailedCreate"), message("no pod can be made: it is "+
		"forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0"))
	k.Delete(none)
	k.Update(app, func() { app.Spec.Image = "nginx:1.22" })
	k.Eventually(app, testkit.Ready(), pods(1))
}

// quota forbids a resource. It is in force when the function returns.
func quota(k *testkit.K, of corev1.ResourceName) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	q.Spec.Hard = corev1.ResourceList{of: resource.MustParse("0")}
	k.Apply(q)
	k.Eventually(q, testkit.Match("in force", func(q *corev1.ResourceQuota) bool { return len(q.Status.Hard) > 0 }))
	return q
}

// Our autoscaler does not scale foreign Deployments, and our Ingress does not expose foreign Services.
func TestForeignNamesAreNotUsed(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	inside := service("a")
	inside.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	inside.Spec.Selector = map[string]string{"of": "another"}
	k.Apply(inside)
	set := foreignDeployment("a")
	k.Apply(set)
	k.Eventually(set, testkit.Ready())
	k.Get(set)
	before := set.DeepCopy()
	app := fullMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"), phase(v1.PhaseFailed),
		child("Deployment", "a", "ResourceConflict"), child("Service", "a", "ResourceConflict"),
		child("HorizontalPodAutoscaler", "a", "Progressing"), child("Ingress", "a", "Progressing"))
	waitIdle(k, op)
	outside := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	k.Eventually(outside, testkit.Gone())
	k.Eventually(scaler, testkit.Gone())
	k.Get(set)
	if diff := cmp.Diff(before, set); diff != "" {
		t.Errorf("the foreign Deployment was changed (-before +after):\n%s", diff)
	}
	k.Delete(set)
	k.Delete(inside)
	k.Eventually(app, testkit.Ready(), pods(2))
	k.Eventually(outside, testkit.Exists())
	k.Eventually(scaler, testkit.Exists())
}

// Objects without a controller are adopted if the annotation permits it, for instance after a restore from a backup.
func TestAdoption(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := fullMyApp("a")
	app.Spec.DeletionPolicy = v1.DeletionDelete
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	set, data := deployment("a"), claim("a-data")
	k.Get(set)
	k.Get(data)
	k.Delete(app, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	k.Eventually(app, testkit.Gone())
	again := fullMyApp("a")
	again.Spec.DeletionPolicy = v1.DeletionDelete
	k.Apply(again)
	k.Eventually(again, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"))
	k.Update(again, func() { again.Annotations = map[string]string{"mycompany.com/adopt": "true"} })
	k.Eventually(again, testkit.Ready(), pods(2))
	for name, was := range map[string][2]client.Object{
		"Deployment": {set, deployment("a")}, "claim": {data, claim("a-data")},
	} {
		before, after := was[0], was[1]
		k.Get(after)
		if before.GetUID() != after.GetUID() || !metav1.IsControlledBy(after, again) {
			t.Errorf("the %s was not adopted: %v", name, after.GetOwnerReferences())
		}
	}
	k.Delete(again)
	k.Eventually(set, testkit.Gone())
}

// An error that prevents a plan is in the phase, the message and ResourcesApplied, not only in Ready.
func TestInvalidPodTemplateIsReported(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready(), phase(v1.PhaseReady))
	k.Update(app, func() { app.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec": {"contaners": []}}`)} })
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "InvalidPodTemplate"), phase(v1.PhaseFailed),
		message(`spec.podTemplate: unknown field "spec.contaners": correct it`),
		testkit.Condition("ResourcesApplied", metav1.ConditionFalse), testkit.Condition("Available", metav1.ConditionTrue))
	k.Update(app, func() { app.Spec.PodTemplate = nil })
	k.Eventually(app, testkit.Ready(), phase(v1.PhaseReady), testkit.Condition("ResourcesApplied", metav1.ConditionTrue))
}

// The existing claim is missing, then it is created and cannot be shared.
func TestExistingClaimThatDoesNotFit(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	app.Spec.Storage.ExistingClaim = "theirs"
	app.Spec.Replicas = new(int32(2))
	app.Spec.Storage.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany} // which theirs has not
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ReferenceNotFound"), phase(v1.PhasePending),
		testkit.Condition("VolumeBound", metav1.ConditionFalse), testkit.Condition("Available", metav1.ConditionFalse),
		testkit.Condition("Progressing", metav1.ConditionFalse), testkit.Condition("ResourcesApplied", metav1.ConditionFalse))
	k.Apply(foreignClaim("theirs", corev1.ReadWriteOnce))
	k.Eventually(app, testkit.Reason("Stalled", metav1.ConditionTrue, "VolumeNotShared"), phase(v1.PhaseFailed),
		testkit.Condition("VolumeBound", metav1.ConditionTrue))
	k.Eventually(deployment("a"), testkit.Gone())
	k.Update(app, func() { app.Spec.Replicas = new(int32(1)) })
	k.Eventually(app, testkit.Ready(), pods(1))
}

// Children of a predecessor terminate without an action by the user.
func TestPredecessorIsAwaited(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	app.Spec.Storage.Enabled = new(false)
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	set := deployment("a")
	k.Update(set, func() { set.Finalizers = []string{"example.com/held"} })
	k.Delete(app)
	k.Eventually(app, testkit.Gone())
	again := newMyApp("a")
	again.Spec.Image = "nginx:1.22"
	again.Spec.Storage.Enabled = new(false)
	k.Apply(again)
	k.Eventually(again, child("Deployment", "a", "WaitingForFormer"), phase(v1.PhasePending),
		message("Deployment a of the former object of this name is still being deleted"),
		testkit.Condition("ResourcesApplied", metav1.ConditionTrue), testkit.Match("no image", func(o *v1.MyApp) bool {
			return o.Status.Image == "" // of the former one's pods
		}))
	k.Update(set, func() { set.Finalizers = nil })
	k.Eventually(again, testkit.Ready())
	k.Eventually(set, image("nginx:1.22"))
}

// Two apps with one host are both ready, and each has its own Ingress: which one serves is up to the Ingress controller.
func sharedHost(t *testing.T, k *testkit.K, eve client.Client) {
	t.Helper()
	for _, name := range []string{"a", "b"} {
		app := tenantApp(k, name)
		app.Spec.Service.Enabled = true
		app.Spec.Ingress = v1.Ingress{Enabled: true, Host: "a.example"}
		mustCreate(t, k, eve, app)
		k.Eventually(app, testkit.Ready())
	}
	for _, name := range []string{"a", "b"} {
		k.Eventually(&networkingv1.Ingress{ObjectMeta: in(k, name)}, testkit.Match("its own", func(i *networkingv1.Ingress) bool {
			rule := i.Spec.Rules[0]
			return rule.Host == "a.example" && rule.HTTP.Paths[0].Backend.Service.Name == name
		}))
	}
}
