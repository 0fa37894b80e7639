package myapp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Hard scenario 2: with a ReadWriteOnce volume the old pod is deleted before the new one is created. Otherwise both would
// wait forever.
func TestNoDeadlockOverTheVolume(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	strategy := func(want appsv1.DeploymentStrategyType) testkit.Check {
		return testkit.Match(string(want), func(d *appsv1.Deployment) bool {
			return d.Spec.Strategy.Type == want &&
				(d.Spec.Strategy.RollingUpdate == nil) == (want == appsv1.RecreateDeploymentStrategyType)
		})
	}
	set := deployment("a")
	k.Eventually(set, strategy(appsv1.RecreateDeploymentStrategyType))
	k.Update(app, func() { app.Spec.Image = "nginx:1.22" })
	k.Eventually(set, image("nginx:1.22"), testkit.Ready())

	k.Update(app, func() { app.Spec.Storage.Enabled = new(false) })
	k.Eventually(set, strategy(appsv1.RollingUpdateDeploymentStrategyType))
	k.Eventually(app, testkit.Ready())
	if v := set.Spec.Template.Spec.Volumes; len(v) > 0 {
		t.Errorf("the pods have the volumes %v", v)
	}
	k.Eventually(claim("a-data"), testkit.Exists()) // the data stay until the MyApp is deleted
	k.Update(app, func() { app.Spec.Storage.Enabled = new(true) })
	k.Eventually(set, strategy(appsv1.RecreateDeploymentStrategyType))
	k.Eventually(app, testkit.Ready())
	k.Update(app, func() { app.Spec.Strategy = v1.StrategyRollingUpdate })
	k.Eventually(set, strategy(appsv1.RollingUpdateDeploymentStrategyType))
	k.Eventually(app, testkit.Ready())
}

// With RetainData the claim outlives its app for every kind of deletion, with and without a running operator, and the next
// app adopts it.
func TestDeletionPolicy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy metav1.DeletionPropagation
		stop   bool
		pause  bool
	}{
		"background":           {policy: metav1.DeletePropagationBackground},
		"foreground":           {policy: metav1.DeletePropagationForeground}, // as Argo CD deletes
		"without the operator": {policy: metav1.DeletePropagationForeground, stop: true},
		"paused":               {policy: metav1.DeletePropagationForeground, pause: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			op := start(k)
			app := newMyApp("a")
			app.Spec.DeletionPolicy = v1.DeletionDelete
			k.Apply(app)
			k.Eventually(app, testkit.Ready())
			k.Update(app, func() { app.Spec.DeletionPolicy = v1.DeletionRetainData })
			k.Eventually(app, testkit.Ready())
			data := claim("a-data")
			k.Get(data)
			before := data.UID
			if c.pause {
				k.Update(app, func() { app.Spec.Paused = true })
				k.Eventually(app, testkit.Condition("Paused", metav1.ConditionTrue))
			}
			if c.stop {
				op.Stop()
			}
			if err := k.Client.Delete(k.Context(), app, client.PropagationPolicy(c.policy)); err != nil {
				t.Fatal(err)
			}
			k.Eventually(app, testkit.Gone())
			k.Eventually(deployment("a"), testkit.Gone())
			k.Get(data)
			if len(data.OwnerReferences) > 0 || data.DeletionTimestamp != nil {
				t.Fatalf("the claim is not kept: %+v", data.ObjectMeta)
			}
			if c.stop {
				start(k)
			}
			again := newMyApp("a")
			again.Spec.DeletionPolicy = v1.DeletionDelete
			k.Apply(again)
			k.Eventually(again, testkit.Ready())
			k.Eventually(data, testkit.Match("taken over", func(c *corev1.PersistentVolumeClaim) bool {
				return c.UID == before && metav1.IsControlledBy(c, again)
			}))
			k.Delete(again)
			k.Eventually(data, testkit.Gone())
		})
	}
}

// The deletion of a MyApp keeps its data unless its deletionPolicy says otherwise.
func TestDataAreKeptByDefault(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	data := claim("a-data")
	k.Get(data)
	before := data.UID
	k.Delete(app, client.PropagationPolicy(metav1.DeletePropagationForeground))
	k.Eventually(app, testkit.Gone())
	k.Eventually(deployment("a"), testkit.Gone())
	again := newMyApp("a")
	k.Apply(again)
	k.Eventually(again, testkit.Ready())
	k.Get(data)
	if data.UID != before || len(data.OwnerReferences) > 0 || data.Labels[apply.OwnerUIDLabel] != string(again.UID) {
		t.Errorf("the claim is not kept and adopted: %+v", data.ObjectMeta)
	}
}

// A claim with the operator's label and the annotation of an owner is not one that the operator made: it is not mounted.
func TestClaimWithLabelsOnlyIsNotAdopted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	planted := foreignClaim("a-data", corev1.ReadWriteOnce)
	planted.Labels = map[string]string{sdk.ManagedByLabel: "myapp", apply.OwnerUIDLabel: "any", sdk.InstanceLabel: "a"}
	planted.Annotations = map[string]string{apply.OwnerAnnotation: k.Namespace + "/a"}
	k.Apply(planted)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"), phase(v1.PhaseFailed))
	k.Eventually(deployment("a"), testkit.Gone())
	k.Update(app, func() { app.Annotations = map[string]string{myapp.AdoptAnnotation: "true"} })
	k.Eventually(app, testkit.Ready())
}

// The pods of an app are not replaced while its claim is being deleted, because the claim and its data exist as long as a
// pod uses them.
func TestExistingClaimThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	theirs := foreignClaim("theirs", corev1.ReadWriteOnce)
	theirs.Finalizers = []string{"example.com/held"}
	k.Apply(theirs)
	app := newMyApp("a")
	app.Spec.Storage.ExistingClaim = "theirs"
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	k.Delete(theirs)
	const advice = "PersistentVolumeClaim theirs is being deleted, and its data are lost when the pods of the app end, so " +
		"they are not replaced: copy the data, and name another claim in a new MyApp"
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ClaimTerminating"), phase(v1.PhaseFailed),
		message(advice), testkit.Condition("Available", metav1.ConditionTrue),
		testkit.Condition("VolumeBound", metav1.ConditionTrue))
	k.Update(app, func() { app.Spec.Image = "nginx:1.22" })
	k.Eventually(app, testkit.Match("observed", func(o *v1.MyApp) bool { return o.Status.ObservedGeneration == o.Generation }))
	k.Eventually(deployment("a"), image("nginx:1.21"))
	k.Update(theirs, func() { theirs.Finalizers = nil })
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ReferenceNotFound"))
}

// A claim that cannot grow does not stop the app, and the message names the way back.
func TestRejectedGrowth(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("a quota refuses the larger claim", testkit.Forbidden))
	start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	limit := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "little"}}
	limit.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("1Gi")}
	k.Apply(limit)
	k.Eventually(limit, testkit.Match("in force", func(q *corev1.ResourceQuota) bool { return len(q.Status.Hard) > 0 }))
	k.Update(app, func() { app.Spec.Storage.Size = "2Gi" })
	const advice = ": set spec.storage.size back to 1Gi, or make the larger size possible"
	for _, condition := range []string{"Ready", "Stalled"} {
		k.Eventually(app, testkit.Match(condition+" advises", func(o *v1.MyApp) bool {
			c := conditions.Get(o, condition)
			return c != nil && c.Reason == "PersistentVolumeClaimRejected" && strings.HasSuffix(c.Message, advice) &&
				c.Message == o.Status.Message
		}))
	}
	k.Update(app, func() { app.Spec.Storage.Size = "1Gi" })
	k.Eventually(app, testkit.Ready())
}

func TestExistingClaim(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	app.Spec.Storage.ExistingClaim = "theirs"
	k.Apply(app)
	k.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ReferenceNotFound"))
	theirs := claim("theirs")
	theirs.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	theirs.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
	k.Apply(theirs)
	k.Eventually(app, testkit.Ready(), testkit.Match("their volume", func(o *v1.MyApp) bool {
		return o.Status.Volume != nil && o.Status.Volume.Name == "theirs" && o.Status.Volume.Capacity == "3Gi"
	}))
	k.Eventually(claim("a-data"), testkit.Gone())
	set := deployment("a")
	if k.Get(set); set.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("the strategy is %s although many nodes can mount the volume", set.Spec.Strategy.Type)
	}
	k.Delete(app)
	k.Eventually(app, testkit.Gone())
	k.Eventually(theirs, testkit.Exists())
}

// A volume can grow. The granted size is the lower limit afterwards.
func TestStorageGrows(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	has := func(size string) testkit.Check {
		return testkit.Match("a volume of "+size, func(o *v1.MyApp) bool {
			return o.Status.Volume.Capacity == size && o.Status.Volume.Requested == size
		})
	}
	k.Update(app, func() { app.Spec.Storage.Size = "2Gi" })
	k.Eventually(app, testkit.Ready(), has("2Gi"))
	app.Spec.Storage.Size = "1Gi"
	if err := k.Client.Update(k.Context(), app); err == nil {
		t.Error("a size below what was granted is accepted")
	}
}

// An app that asks for less than an existing claim has takes the claim as it is. The article's manifest works again after
// its volume grew.
func TestNoClaimShrinks(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	app := newMyApp("a")
	app.Spec.DeletionPolicy = v1.DeletionRetainData
	app.Spec.Storage.Size = "2Gi"
	k.Apply(app)
	k.Eventually(app, testkit.Ready())
	k.Delete(app)
	k.Eventually(app, testkit.Gone())

	asks := func(size string) testkit.Check {
		return testkit.Match("asks for "+size, func(c *corev1.PersistentVolumeClaim) bool {
			return c.Spec.Resources.Requests.Storage().String() == size
		})
	}
	has := func(size string) testkit.Check {
		return testkit.Match("a volume of "+size, func(o *v1.MyApp) bool {
			return o.Status.Volume != nil && o.Status.Volume.Requested == size
		})
	}
	again, data := newMyApp("a"), claim("a-data")
	k.Apply(again)
	k.Eventually(again, testkit.Ready(), phase(v1.PhaseReady), has("2Gi"))
	k.Eventually(data, asks("2Gi"))
	k.Update(data, func() {
		data.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("3Gi")
	})
	k.Eventually(again, testkit.Ready(), has("3Gi"))
	k.Update(again, func() { again.Spec.Image = "nginx:1.22" })
	k.Eventually(again, testkit.Ready(), has("3Gi"))
	k.Eventually(data, asks("3Gi"))
}

// Dry needs no cluster and no API server that sets defaults.
func TestPlanWithoutACluster(t *testing.T) {
	t.Parallel()
	app := newMyApp("a")
	app.Spec.Storage.Size = "1Gi"
	plan := sdk.Dry(t.Context(), myapp.Operator, app)
	var steps []string
	for _, s := range plan.Actions {
		steps = append(steps, s.String())
	}
	want := []string{"create PersistentVolumeClaim a-data", "create Deployment a"}
	if diff := cmp.Diff(want, steps); diff != "" || plan.Err != nil {
		t.Errorf("%v, -want +got:\n%s", plan.Err, diff)
	}
}
