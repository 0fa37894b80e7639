package convert

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

const ourFinalizer = "convert.homeostat.dev/target"

// Each form takes over the objects of the previous one, as in a rollout.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	writes := map[string][]string{
		"step1": {"apply configmaps -> 200", "apply deployments.apps -> 200", "apply services -> 200"},
	}
	e := newEnv(t)
	op := e.start(forms[0])
	app := e.createReady()
	d := e.deployment()
	e.Get(d)
	e.sent(op)
	for _, f := range forms[1:] {
		op.Stop()
		template := d.Spec.Template.DeepCopy()
		since := e.reconciles.Load()
		op = e.start(f)
		e.waitReconcile(since)
		var wrote []string
		for _, r := range e.sent(op) {
			if strings.HasSuffix(r, "-> 200") && !strings.Contains(r, "/status") {
				wrote = append(wrote, r)
			}
		}
		slices.Sort(wrote)
		if diff := cmp.Diff(writes[f.name], wrote); diff != "" {
			t.Errorf("writes of %s without those of the status (-want +got):\n%s", f.name, diff)
		}
		e.Get(d)
		if diff := cmp.Diff(*template, d.Spec.Template); diff != "" {
			t.Errorf("%s restarts the pods (-before +after):\n%s", f.name, diff)
		}
		e.completeRollout(app) // the annotation of sdk/apply is a new generation of the Deployment
		e.Eventually(app, testkit.Ready())
	}
	e.Eventually(app, finalizers(ourFinalizer))
	e.Delete(app)
	e.Eventually(app, testkit.Gone())
	e.Eventually(e.target(), testkit.Gone())
	e.Eventually(d, testkit.Gone())
}

// Each form removes the finalizer of a Webapp that is being deleted during the rollout.
func TestUpgradeDuringDeletion(t *testing.T) {
	t.Parallel()
	for i, f := range forms[1:] {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			op := e.start(forms[i])
			app := e.createReady()
			e.Eventually(e.target(), testkit.Exists())
			op.Stop()
			e.Delete(app)
			e.start(f)
			e.Eventually(app, testkit.Gone())
			e.Eventually(e.target(), testkit.Gone())
		})
	}
}

// Without the steps in between, the target has no owner label and is not deleted with the Webapp.
func TestSkippedSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	op := e.start(forms[0])
	app := e.createReady()
	op.Stop()
	e.start(forms[len(forms)-1])
	e.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"), finalizers(ourFinalizer))
	e.Delete(app)
	e.Eventually(app, testkit.Gone())
	e.Get(e.target()) // without an owner label it counts as a foreign object
}

// handOver transfers the fields that a manager wrote with Update to the owner's applied fields, so that the owner can remove
// them later.
func handOver(ctx context.Context, c client.Client, o client.Object, manager, owner string) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(o, sets.New(manager), owner)
	if err != nil || patch == nil {
		return err
	}
	return c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch))
}

// The form before owns the fields that it has set permanently. A later version that no longer sets a field cannot remove it.
func TestFieldNoLongerSet(t *testing.T) {
	t.Parallel()
	for name, handed := range map[string]bool{"not handed over": false, "handed over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			op := e.start(forms[0])
			app := e.createReady()
			op.Stop()
			d := e.deployment()
			e.Get(d)
			if handed {
				former := d.ManagedFields[0].Manager
				if err := handOver(e.Context(), e.Client, d, former, fieldOwner); err != nil {
					t.Fatal(err)
				}
			}
			owner := apply.NewFieldManager(fieldOwner)
			for _, env := range [][]corev1.EnvVar{{{Name: "PORT", Value: "8080"}}, nil} {
				d = desired.Deployment(app)
				d.Spec.Template.Spec.Containers[0].Env = env
				if _, err := owner.Apply(e.Context(), e.Client, d); err != nil {
					t.Fatal(err)
				}
			}
			if gone := len(d.Spec.Template.Spec.Containers[0].Env) == 0; gone != handed {
				t.Errorf("removal of the variable: %t, want %t", gone, handed)
			}
		})
	}
}
