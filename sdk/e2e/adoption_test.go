package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A conflictingObject has the name of a child and is not controlled by the custom resource.
type conflictingObject struct {
	reason  string
	owner   func(k *testkit.K, s *site.Site) []metav1.OwnerReference
	label   string // value of the label by which children are watched, if any
	message string // what the message names
}

// existingOwner creates an object that may own others.
func existingOwner(k *testkit.K, name string) *corev1.ConfigMap {
	c := named(&corev1.ConfigMap{}, name)
	k.Apply(c)
	return c
}

func ownerReference(o client.Object, apiVersion, kind string, controller bool) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: &controller,
	}}
}

var conflictingObjects = map[string]conflictingObject{
	"ownerless": {
		reason:  "a user created it",
		owner:   func(*testkit.K, *site.Site) []metav1.OwnerReference { return nil },
		message: "has no owner",
	},
	"ownerless-labeled": {
		reason:  "the label of a child is no proof of ownership",
		owner:   func(*testkit.K, *site.Site) []metav1.OwnerReference { return nil },
		label:   operatorName,
		message: "has no owner",
	},
	"controlled": {
		reason: "another controller owns it",
		owner: func(k *testkit.K, _ *site.Site) []metav1.OwnerReference {
			return ownerReference(existingOwner(k, "boss"), "v1", "ConfigMap", true)
		},
		message: "belongs to ConfigMap boss",
	},
	"controlled-by-sibling": {
		reason: "another object of our own kind owns it",
		owner: func(k *testkit.K, _ *site.Site) []metav1.OwnerReference {
			sibling := newSite("sibling")
			sibling.Annotations = map[string]string{sdk.PausedAnnotation: "true"}
			k.Apply(sibling)
			return ownerReference(sibling, "e2e.homeostat.dev/v1", "Site", true)
		},
		label:   operatorName,
		message: "belongs to Site sibling",
	},
	"owned-but-not-controlled": {
		reason: "an owner is not necessarily the controller",
		owner: func(_ *testkit.K, s *site.Site) []metav1.OwnerReference {
			return ownerReference(s, "e2e.homeostat.dev/v1", "Site", false)
		},
		message: "has no owner",
	},
}

func TestForeignObjectIsNeverWritten(t *testing.T) {
	t.Parallel()
	for name, c := range conflictingObjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			running := start(k, operator(func(_ context.Context, p *pass) error {
				if p.Object.Name == "a" && p.Object.Spec.Extra {
					sdk.Apply(p, configMap(p.Object, "taken"))
					sdk.Apply(p, configMap(p.Object, "free"))
				}
				return nil
			}))
			s := newSite("a")
			k.Apply(s)
			k.Eventually(s, testkit.Ready())
			taken := named(&corev1.ConfigMap{}, "taken")
			taken.OwnerReferences = c.owner(k, s)
			if c.label != "" {
				taken.Labels = map[string]string{sdk.ManagedByLabel: c.label}
			}
			k.Apply(taken)
			k.Update(s, func() { s.Spec.Extra = true })
			k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"),
				testkit.Condition(conditions.Stalled, metav1.ConditionTrue))
			if _, _, message := condition(s, conditions.Ready); !strings.Contains(message, "ConfigMap") ||
				!strings.Contains(message, "taken") || !strings.Contains(message, c.message) {
				t.Errorf("%s: the message is %q; it should name the object and say that it %s", c.reason, message, c.message)
			}
			k.Eventually(named(&corev1.ConfigMap{}, "free"), testkit.Exists()) // siblings are still created

			waitIdle(k, running, quietPeriod)
			running.Recorder().Reset()
			requireUnchanged(t, k, running, taken)
			if got := sent(k, running); len(got) > 0 {
				t.Errorf("%s: requests while the object conflicts: %v", c.reason, got)
			}
			k.Delete(taken)
			k.Eventually(s, testkit.Ready())
			k.Eventually(named(&corev1.ConfigMap{}, "taken"), testkit.Match("ours", func(c *corev1.ConfigMap) bool {
				return metav1.IsControlledBy(c, s)
			}))
		})
	}
}

func TestConflictReason(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "taken"), sdk.ConflictReason("NameTaken"))
		return nil
	}))
	k.Apply(named(&corev1.ConfigMap{}, "taken"))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "NameTaken"))
}

// adopting returns a reconcile function that applies a child that may exist already.
func adopting(opts ...sdk.ApplyOption) func(context.Context, *pass) error {
	return func(_ context.Context, p *pass) error {
		if !p.Object.Spec.Extra { // the site wants no child
			c := configMap(p.Object, "taken")
			c.Immutable = new(p.Object.Spec.Text == "frozen")
			sdk.Apply(p, c, append([]sdk.ApplyOption{sdk.Adopt()}, opts...)...)
		}
		return nil
	}
}

// foreignConfigMap returns an object that existed before the operator.
func foreignConfigMap() *corev1.ConfigMap {
	c := named(&corev1.ConfigMap{}, "taken")
	c.Labels = map[string]string{"size": "small", "color": "red"}
	c.Data = map[string]string{"text": "theirs", "more": "theirs"}
	return c
}

func TestAdoptUncontrolledObject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		opts   []sdk.ApplyOption
		data   map[string]string
		color  string
	}{
		"applied": {
			"fields that we set become ours, others stay", nil, map[string]string{"text": "hello", "more": "theirs"}, "blue",
		},
		"made once": {
			"a create-only child is adopted unchanged",
			[]sdk.ApplyOption{sdk.CreateOnly()},
			map[string]string{"text": "theirs", "more": "theirs"},
			"red",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			running := start(k, operator(adopting(c.opts...)))
			taken := foreignConfigMap()
			k.Apply(taken)
			before := taken.UID
			s := newSite("a")
			k.Apply(s)
			converged(k, running, s)
			want := []string{
				"apply configmaps taken -> 409", "get configmaps taken -> 200", "list sites.e2e.homeostat.dev a -> 200",
				"apply configmaps taken -> 200", "patch sites.e2e.homeostat.dev/status a -> 200",
			}
			if diff := cmp.Diff(want, sent(k, running)); diff != "" {
				t.Errorf("%s: requests (-want +got):\n%s", c.reason, diff)
			}
			k.Get(taken)
			if !metav1.IsControlledBy(taken, s) || taken.UID != before {
				t.Errorf("%s: it is not the same object, or not ours: %+v", c.reason, taken.ObjectMeta)
			}
			labels := map[string]string{"size": "small", "color": c.color, sdk.ManagedByLabel: operatorName}
			if diff := cmp.Diff(labels, taken.Labels); diff != "" {
				t.Errorf("%s: labels (-want +got):\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(c.data, taken.Data); diff != "" {
				t.Errorf("%s: data (-want +got):\n%s", c.reason, diff)
			}
			k.Update(s, func() { s.Spec.Extra = true })
			k.Eventually(taken, testkit.Gone()) // it is a normal child now
		})
	}
}

// A create-only child that a predecessor left behind is adopted unchanged. Fields that the operator applied earlier are not
// removed, although the adoption does not apply them.
func TestAdoptChildOfPredecessor(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(adopting(sdk.CreateOnly(), sdk.HoldUntil(false)))
	op.NeedsFinalizer = func(*site.Site) bool { return true }
	op.Finalize = func(_ context.Context, p *pass) error {
		p.OrphanChildren()
		return nil
	}
	running := start(k, op)
	former, child := newSite("a"), named(&corev1.ConfigMap{}, "taken")
	k.Apply(former)
	k.Eventually(former, testkit.Ready())
	k.Get(child)
	before := child.UID
	k.Delete(former)
	k.Eventually(former, testkit.Gone())

	s := newSite("a")
	s.Spec.Text = "other"
	k.Apply(s)
	converged(k, running, s)
	if k.Get(child); child.UID != before || !metav1.IsControlledBy(child, s) || child.Data["text"] != "hello" {
		t.Errorf("it is another object, or is not adopted: %+v, %v", child.ObjectMeta, child.Data)
	}
	if diff := cmp.Diff([]string{"homeostat.dev/" + operatorName}, child.Finalizers); diff != "" {
		t.Errorf("it is tracked; finalizers (-want +got):\n%s", diff)
	}
}

func TestAdoptIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		says    string
		prepare func(*testkit.K, *corev1.ConfigMap)
		free    string // change that makes the object available
		same    bool   // the same object is adopted then
	}{
		"controlled": {
			reason: "another object controls it", says: "belongs to ConfigMap boss",
			prepare: func(k *testkit.K, o *corev1.ConfigMap) {
				k.Update(o, func() { o.OwnerReferences = ownerReference(existingOwner(k, "boss"), "v1", "ConfigMap", true) })
			},
			free: `{"metadata":{"ownerReferences":null}}`, same: true,
		},
		"terminating": {
			reason: "it is terminating, and our data would be deleted with it", says: "has no owner",
			prepare: func(k *testkit.K, o *corev1.ConfigMap) {
				k.Update(o, func() { o.Finalizers = []string{theirFinalizer} })
				k.Delete(o)
			},
			free: `{"metadata":{"finalizers":null}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			running := start(k, operator(adopting()))
			taken := foreignConfigMap()
			k.Apply(taken)
			c.prepare(k, taken)
			k.Get(taken)
			before := taken.UID
			s := newSite("a")
			k.Apply(s)
			k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
			if _, _, message := condition(s, conditions.Ready); !strings.Contains(message, c.says) {
				t.Errorf("%s: message %q", c.reason, message)
			}
			requireUnchanged(t, k, running, taken)
			mustPatch(t, k, taken, types.MergePatchType, c.free)
			k.Eventually(s, testkit.Ready())
			if k.Get(taken); !metav1.IsControlledBy(taken, s) || (taken.UID == before) != c.same {
				t.Errorf("%s: it was %s, and is %s of %v", c.reason, before, taken.UID, taken.OwnerReferences)
			}
		})
	}
}

// Adoption never deletes an object, regardless of the policy for immutable children.
func TestAdoptNeverDeletes(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(adopting(sdk.OnImmutable(sdk.Recreate))))
	taken := foreignConfigMap()
	taken.Immutable = new(true)
	k.Apply(taken)
	s := newSite("a")
	s.Spec.Text = "frozen"
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ConfigMapRejected"))
	requireUnchanged(t, k, running, taken)
	for _, r := range running.Recorder().Writes() {
		if r.Verb == "delete" {
			t.Errorf("a foreign object was deleted: %s", r)
		}
	}
}

// The child of a predecessor still exists when the new object is created.
func TestWaitForChildOfPredecessor(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(oneChild))
	former := newSite("a")
	k.Apply(former)
	c := named(&corev1.ConfigMap{}, former.Name)
	k.Eventually(c, testkit.Exists())
	k.Update(c, func() { c.Finalizers = []string{"e2e.homeostat.dev/kept"} })
	k.Delete(former)
	k.Eventually(former, testkit.Gone())

	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "WaitingForFormer"),
		testkit.Condition(conditions.Stalled, metav1.ConditionFalse))
	if err := k.Client.Delete(k.Context(), c); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	k.Eventually(c, testkit.Match("terminating", func(c *corev1.ConfigMap) bool { return !c.DeletionTimestamp.IsZero() }))
	waitIdle(k, running, quietPeriod)
	running.Recorder().Reset()
	requireUnchanged(t, k, running, c)
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests while the predecessor's child is terminating: %v", got)
	}
	mustPatch(t, k, c, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	k.Eventually(s, testkit.Ready())
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), testkit.Match("ours", func(c *corev1.ConfigMap) bool {
		return metav1.IsControlledBy(c, s)
	}))
}

// An object that is created between the operator's read and its write is not written either.
func TestForeignObjectCreatedDuringReconcile(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	g := newBarrier()
	running := start(k, operator(func(ctx context.Context, p *pass) error {
		g.arrive()
		return oneChild(ctx, p)
	}))
	s := newSite("a")
	k.Apply(s)
	g.waitReached(k)
	c := named(&corev1.ConfigMap{}, s.Name)
	k.Apply(c)
	g.open()
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	requireUnchanged(t, k, running, c)
	var writes []string
	for _, r := range running.Recorder().Writes() {
		if r.Resource == "configmaps" {
			writes = append(writes, fmt.Sprintf("%s -> %d", r.Verb, r.Code))
		}
	}
	if diff := cmp.Diff([]string{"apply -> 409"}, writes); diff != "" {
		t.Errorf("writes of ConfigMaps (-want +got):\n%s", diff)
	}
}
