package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// startFar runs an operator that sees two namespaces.
func startFar(
	k, far *testkit.K, reconcile func(context.Context, *pass) error, change ...func(*siteOperator),
) *testkit.Instance {
	op := operator(reconcile)
	op.Owns = append(op.Owns, &rbacv1.ClusterRole{})
	for _, f := range change {
		f(op)
	}
	return runFar(k, far, op)
}

func runFar(k, far *testkit.K, op *siteOperator, opts ...testkit.StartOption) *testkit.Instance {
	return k.Start(func(mgr manager.Manager) error {
		return op.SetupWithManager(mgr, sdk.InNamespaces(k.Namespace, far.Namespace))
	}, opts...)
}

// farther is a ConfigMap in the other namespace.
func farther(far *testkit.K, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: far.Namespace, Name: name}}
}

// An owner reference works within a namespace only. What a site has elsewhere comes and goes with it all the same.
func TestRemoteChildren(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}}
	reconcile := func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "near"))
		if p.Object.Spec.Extra {
			c := configMap(p.Object, "remote")
			c.Namespace = far.Namespace
			sdk.Apply(p, c)
			sdk.Apply(p, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}})
		}
		return nil
	}
	running := startFar(k, far, reconcile)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready(), finalizers())

	running.Recorder().Reset()
	k.Update(s, func() { s.Spec.Extra = true })
	remote := farther(far, "remote")
	far.Eventually(remote, text("hello"))
	k.Eventually(role, testkit.Exists())
	k.Eventually(s, testkit.Ready(), finalizers(ourFinalizer))
	got := sent(k, running)
	guarded := slices.IndexFunc(got, func(r string) bool { return strings.HasPrefix(r, "patch sites") })
	made := slices.IndexFunc(got, func(r string) bool { return strings.Contains(r, "remote") })
	if guarded < 0 || guarded > made {
		t.Errorf("the finalizer comes after what it is for: %v", got)
	}
	if len(remote.OwnerReferences)+len(role.OwnerReferences) > 0 {
		t.Errorf("owner references: %v, %v", remote.OwnerReferences, role.OwnerReferences)
	}

	// It is watched and costs nothing, a restart included.
	mustPatch(t, far, remote, types.MergePatchType, `{"data":{"text":"changed by hand"}}`)
	far.Eventually(remote, text("hello"))
	far.Delete(remote)
	far.Eventually(remote, text("hello"))
	running.Stop()
	running = startFar(k, far, reconcile)
	if got := sent(k, running); len(writes(got)) > 0 {
		t.Errorf("writes after a restart: %v", got)
	}

	// It goes when it is applied no longer, and so does the finalizer.
	k.Update(s, func() { s.Spec.Extra = false })
	far.Eventually(remote, testkit.Gone())
	k.Eventually(role, testkit.Gone())
	k.Eventually(s, testkit.Ready(), finalizers())

	// And it goes with its parent.
	k.Update(s, func() { s.Spec.Extra = true })
	far.Eventually(remote, testkit.Exists())
	k.Eventually(s, testkit.Ready())
	mustPatch(t, far, remote, types.MergePatchType, `{"metadata":{"finalizers":["`+theirFinalizer+`"]}}`)
	k.Delete(s)
	k.Eventually(role, testkit.Gone())
	k.Eventually(s, testkit.Reason(conditions.Deleting, metav1.ConditionTrue, "CleaningUp"), finalizers(ourFinalizer))
	mustPatch(t, far, remote, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	k.Eventually(s, testkit.Gone())
	far.Eventually(remote, testkit.Gone())
}

// writes are those requests that are not reads.
func writes(requests []string) []string {
	return slices.DeleteFunc(slices.Clone(requests), func(r string) bool {
		return strings.HasPrefix(r, "get") || strings.HasPrefix(r, "list")
	})
}

// Marks are only as good as who wrote them: what is somebody else's is neither written nor deleted.
func TestRemoteSquatterIsNeverWritten(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	squatter := farther(far, "remote")
	squatter.Data = map[string]string{"text": "mine"}
	far.Apply(squatter)
	running := startFar(k, far, applyFar(far))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	untouched(t, far, running, squatter)
	far.Delete(squatter)
	k.Eventually(s, testkit.Ready())

	// Somebody copies a child with all its labels and annotations.
	child := get(far, farther(far, "remote"))
	clone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: far.Namespace, Name: "clone", Labels: child.Labels, Annotations: child.Annotations,
	}}
	far.Apply(clone)
	k.Update(s, func() { s.Spec.Text = "new" })
	far.Eventually(child, text("new"))
	untouched(t, far, running, clone)

	// Another site that wants the same object hears whose it is, and gets it when that goes.
	second := newSite("b")
	k.Apply(second)
	k.Eventually(second, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	if _, _, message := condition(second, conditions.Ready); !strings.Contains(message, k.Namespace+"/a") {
		t.Errorf("message %q does not say whose it is", message)
	}
	k.Delete(s)
	k.Eventually(second, testkit.Ready())
	far.Eventually(child, text("hello"))
}

// applyFar is the reconcile function of operators whose only child is in the other namespace.
func applyFar(far *testkit.K) func(context.Context, *pass) error {
	return func(_ context.Context, p *pass) error {
		c := configMap(p.Object, "remote")
		c.Namespace = far.Namespace
		sdk.Apply(p, c)
		return nil
	}
}

// Whoever takes the finalizer away by force leaves nothing behind.
func TestRemoteChildOfAnObjectThatIsGone(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	running := startFar(k, far, applyFar(far))
	s, child := newSite("a"), farther(far, "remote")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	far.Eventually(child, testkit.Exists())
	uid := child.UID
	running.Stop()
	k.Delete(s)
	mustPatch(t, k, s, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	k.Eventually(s, testkit.Gone())
	startFar(k, far, applyFar(far))
	far.Eventually(child, testkit.Gone())

	again := newSite("a")
	k.Apply(again)
	k.Eventually(again, testkit.Ready())
	if far.Get(child); child.UID == uid {
		t.Error("the former object's child was taken over")
	}
}

// The informer of the objects may be behind that of their children. What belongs to one that lives is not collected.
func TestRemoteChildOfAnObjectThatIsNotSeenYet(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	blind := &faults{delayed: func(req *http.Request) bool { return strings.Contains(req.URL.Path, "/sites") }}
	other := runFar(k, far, operator(applyFar(far)), blind.config(k)) // as if it were another replica
	quiet(k, other, still)
	other.Recorder().Reset()
	blind.late.Store(int64(5 * time.Second))
	startFar(k, far, applyFar(far))
	s, child := newSite("a"), farther(far, "remote")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	far.Eventually(child, testkit.Exists())
	uid := child.UID
	k.Wait("the other operator asks for the site", func(context.Context) error {
		for _, r := range other.Recorder().Requests() {
			if r.Verb == "list" && r.Resource == "sites" {
				return nil
			}
		}
		return errors.New("it has not asked")
	})
	far.Consistently(child, window, testkit.Exists())
	if child.UID != uid {
		t.Error("the child was made anew")
	}
}

// The informer of children may show them as they were before a clean-up handed them over.
func TestKeptRemoteChildIsNotCollected(t *testing.T) {
	t.Parallel()
	k, far := testkit.New(t), testkit.New(t)
	slow := &faults{delayed: func(req *http.Request) bool { return strings.Contains(req.URL.Path, "/configmaps") }}
	op := operator(applyFar(far))
	op.Finalize = func(_ context.Context, p *pass) error {
		p.OrphanChildren()
		return nil
	}
	running := runFar(k, far, op, slow.config(k))
	s, child := newSite("a"), farther(far, "remote")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	slow.late.Store(int64(2 * time.Second))
	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	quiet(k, running, window)
	far.Get(child)
}

// A clean-up may keep what is elsewhere, and may have something of its own there.
func TestRemoteChildrenAndCleanUp(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		t.Run(fmt.Sprintf("keep %t", keep), func(t *testing.T) {
			t.Parallel()
			k, far := testkit.New(t), testkit.New(t)
			startFar(k, far, applyFar(far), func(op *siteOperator) {
				op.Finalize = func(_ context.Context, p *pass) error {
					last := configMap(p.Object, "last")
					last.Namespace = far.Namespace
					sdk.Apply(p, last)
					if keep {
						p.OrphanChildren()
					}
					return nil
				}
			})
			s, child, last := newSite("a"), farther(far, "remote"), farther(far, "last")
			k.Apply(s)
			k.Eventually(s, testkit.Ready())
			far.Eventually(child, testkit.Exists())
			k.Delete(s)
			k.Eventually(s, testkit.Gone())
			if !keep {
				far.Eventually(child, testkit.Gone())
				far.Eventually(last, testkit.Gone())
				return
			}
			free := testkit.Match("free", func(c *corev1.ConfigMap) bool {
				return c.Labels[apply.OwnerUIDLabel] == "" && c.Annotations[apply.OwnerAnnotation] == ""
			})
			far.Consistently(child, window, free)
			far.Consistently(last, window, free)
		})
	}
}
