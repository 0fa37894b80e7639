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

// Each form takes over what the one before has made, as when it is rolled out.
func TestTakeover(t *testing.T) {
	t.Parallel()
	writes := map[string][]string{
		"step1": {"apply configmaps -> 200", "apply deployments.apps -> 200", "apply services -> 200"},
	}
	w := newWorld(t)
	op := w.start(forms[0])
	app := w.ready()
	d := w.deployment()
	w.Get(d)
	w.sent(op)
	for _, f := range forms[1:] {
		op.Stop()
		template := d.Spec.Template.DeepCopy()
		since := w.looked.Load()
		op = w.start(f)
		w.looksAgain(since)
		var wrote []string
		for _, r := range w.sent(op) {
			if strings.HasSuffix(r, "-> 200") && !strings.Contains(r, "/status") {
				wrote = append(wrote, r)
			}
		}
		slices.Sort(wrote)
		if diff := cmp.Diff(writes[f.name], wrote); diff != "" {
			t.Errorf("what %s writes, status left out (-want +got):\n%s", f.name, diff)
		}
		w.Get(d)
		if diff := cmp.Diff(*template, d.Spec.Template); diff != "" {
			t.Errorf("%s restarts the pods (-before +after):\n%s", f.name, diff)
		}
		w.work(app) // the annotation of sdk/apply is a new generation of the Deployment
		w.Eventually(app, testkit.Ready())
	}
	w.Eventually(app, finalizers(ourFinalizer))
	w.Delete(app)
	w.Eventually(app, testkit.Gone())
	w.Eventually(w.target(), testkit.Gone())
	w.Eventually(d, testkit.Gone())
}

// Each form lets go of what is being deleted when it is rolled out.
func TestTakeoverDuringDeletion(t *testing.T) {
	t.Parallel()
	for i, f := range forms[1:] {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			op := w.start(forms[i])
			app := w.ready()
			w.Eventually(w.target(), testkit.Exists())
			op.Stop()
			w.Delete(app)
			w.start(f)
			w.Eventually(app, testkit.Gone())
			w.Eventually(w.target(), testkit.Gone())
		})
	}
}

// To leave out the steps leaves behind what the first of them sees to.
func TestNoStepsInBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	op := w.start(forms[0])
	app := w.ready()
	op.Stop()
	w.start(forms[len(forms)-1])
	w.Eventually(app, testkit.Reason("Ready", metav1.ConditionFalse, "ResourceConflict"), finalizers(ourFinalizer))
	w.Delete(app)
	w.Eventually(app, testkit.Gone())
	w.Get(w.target()) // it bears no mark, so that it counts as somebody else's
}

// handOver makes what a manager has written with Update count as applied by the owner, which can let go of it then.
func handOver(ctx context.Context, c client.Client, o client.Object, manager, owner string) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(o, sets.New(manager), owner)
	if err != nil || patch == nil {
		return err
	}
	return c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch))
}

// What the form before has set is owned by it for ever, so that a later version which sets it no longer does not get rid
// of it.
func TestFieldThatIsSetNoLonger(t *testing.T) {
	t.Parallel()
	for name, handed := range map[string]bool{"as it is": false, "handed over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			op := w.start(forms[0])
			app := w.ready()
			op.Stop()
			d := w.deployment()
			w.Get(d)
			if handed {
				former := d.ManagedFields[0].Manager
				if err := handOver(w.Context(), w.Client, d, former, fieldOwner); err != nil {
					t.Fatal(err)
				}
			}
			owner := apply.NewManager(fieldOwner)
			for _, env := range [][]corev1.EnvVar{{{Name: "PORT", Value: "8080"}}, nil} {
				d = desired.Deployment(app)
				d.Spec.Template.Spec.Containers[0].Env = env
				if _, err := owner.Apply(w.Context(), w.Client, d); err != nil {
					t.Fatal(err)
				}
			}
			if gone := len(d.Spec.Template.Spec.Containers[0].Env) == 0; gone != handed {
				t.Errorf("the variable that is set no longer is gone: %t, want %t", gone, handed)
			}
		})
	}
}
