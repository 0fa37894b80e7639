package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// referenceReader returns an operator that copies a value of the Secret that the site names into a child.
func referenceReader(passes *passTimes) *sdk.Operator[*site.Site] {
	op := operator(func(_ context.Context, p *pass) error {
		passes.add()
		c := configMap(p.Object, p.Object.Name)
		if p.Object.Spec.SecretName != "" {
			secret, err := sdk.Ref(p, named(&corev1.Secret{}, p.Object.Spec.SecretName))
			if err != nil {
				return err
			}
			c.Data["text"] = string(secret.Data["text"])
			secret.Data = nil // a change of the copy, not of the cache
		}
		sdk.Apply(p, c)
		return nil
	})
	op.Owns = op.Owns[:1] // only ConfigMaps, so that every watch of Secrets belongs to a reference
	return op
}

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"text": []byte(value)}}
}

// secretWatches returns the names of the Secrets for which watches were opened so far. A watch of all Secrets has no name.
func secretWatches(op *testkit.Instance) []string {
	var names []string
	for _, r := range op.Recorder().Watches() {
		if r.Resource == "secrets" {
			names = append(names, r.Name)
		}
	}
	return names
}

func TestReferenceIsWatched(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	running := start(k, referenceReader(&passes))
	s := newSite("a")
	s.Spec.SecretName = "key"
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ReferenceNotFound"),
		testkit.Condition(conditions.Reconciling, metav1.ConditionTrue))
	want := "Secret key does not exist in namespace " + k.Namespace
	if _, _, message := condition(s, conditions.Ready); message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	waitIdle(k, running, quietPeriod)
	k.Apply(secret("another", "not referenced"))
	before := len(passes.gaps())
	waitIdle(k, running, observationPeriod)
	if after := len(passes.gaps()); after != before {
		t.Errorf("%d reconciles for a Secret that is not referenced", after-before)
	}

	c := named(&corev1.ConfigMap{}, s.Name)
	k.Apply(secret("key", "one"))
	k.Eventually(c, text("one"))
	key := secret("key", "")
	k.Update(key, func() { key.Data["text"] = []byte("two") })
	k.Eventually(c, text("two"))
	k.Delete(key)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ReferenceNotFound"))
	k.Eventually(c, text("two")) // an incomplete plan removes no child
	if diff := cmp.Diff([]string{"key"}, secretWatches(running)); diff != "" {
		t.Errorf("watches of Secrets (-want +got):\n%s", diff)
	}
}

// A cluster-scoped object can be referenced and applied too; a namespace in its metadata is ignored.
func TestReferenceToClusterScopedObject(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(_ context.Context, p *pass) error {
		class, err := sdk.Ref(p, named(&schedulingv1.PriorityClass{}, k.Namespace))
		if err != nil {
			return err
		}
		c := configMap(p.Object, p.Object.Name)
		c.Data["text"] = class.Description
		sdk.Apply(p, c)
		sdk.Apply(p, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Namespace}})
		return nil
	})
	op.Owns = append(op.Owns, &rbacv1.ClusterRole{})
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ReferenceNotFound"))
	want := "PriorityClass " + k.Namespace + " does not exist"
	if _, _, message := condition(s, conditions.Ready); message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	class := named(&schedulingv1.PriorityClass{Description: "hello"}, k.Namespace)
	k.Apply(class)
	k.Eventually(s, testkit.Ready())
	k.Update(class, func() { class.Description = "new" })
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), text("new"))
	converged(k, running, s)
	running.Recorder().Reset()
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests when idle: %v", got)
	}
	k.Delete(s)
	k.Eventually(named(&rbacv1.ClusterRole{}, k.Namespace), testkit.Gone())
	k.Delete(class)
}

// An object can be read as metadata and in its type at the same time: here, as a reference and as a conflicting object.
func TestReferenceInTwoForms(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(named(&corev1.ConfigMap{}, "foreign"))
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, "foreign"))
		if !p.Object.Spec.Extra {
			return nil
		}
		like := named(&metav1.PartialObjectMetadata{}, "foreign")
		like.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		metadata, err := sdk.Ref(p, like)
		if err != nil {
			return err
		}
		whole, err := sdk.Ref(p, named(&corev1.ConfigMap{}, "foreign"))
		if err != nil {
			return err
		}
		seen := secret("seen", string(metadata.UID)+" "+whole.Data["text"])
		sdk.Apply(p, seen)
		return nil
	})
	start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	foreign := named(&corev1.ConfigMap{}, "foreign")
	k.Update(foreign, func() { foreign.Data = map[string]string{"text": "theirs"} }) // the conflict is watched now
	k.Update(s, func() { s.Spec.Extra = true })
	k.Eventually(named(&corev1.Secret{}, "seen"), testkit.Match("has what both forms have", func(o *corev1.Secret) bool {
		return string(o.Data["text"]) == string(foreign.UID)+" theirs"
	}))
}

func TestReferencesAreShared(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	running := start(k, referenceReader(&passes))
	k.Apply(secret("key", "one"))
	for _, name := range []string{"a", "b", "c"} {
		s := newSite(name)
		s.Spec.SecretName = "key"
		k.Apply(s)
		k.Eventually(named(&corev1.ConfigMap{}, name), text("one"))
	}
	key := secret("key", "")
	k.Update(key, func() { key.Data["text"] = []byte("two") })
	for _, name := range []string{"a", "b", "c"} {
		k.Eventually(named(&corev1.ConfigMap{}, name), text("two"))
	}
	if diff := cmp.Diff([]string{"key"}, secretWatches(running)); diff != "" {
		t.Errorf("watches of Secrets (-want +got):\n%s", diff)
	}
}

func TestWatchOfUnusedReferenceEnds(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var (
		passes  passTimes
		watches atomic.Int64
	)
	f := &faults{watched: func(req *http.Request, open bool) {
		switch {
		case !strings.HasSuffix(req.URL.Path, "/secrets") || req.URL.Query().Get("fieldSelector") == "":
		case open:
			watches.Add(1)
		default:
			watches.Add(-1)
		}
	}}
	one := func(context.Context) error {
		if n := watches.Load(); n != 1 {
			return fmt.Errorf("%d watches of single Secrets", n)
		}
		return nil
	}
	running := start(k, referenceReader(&passes), f.config(k))
	k.Apply(secret("old", "old"))
	k.Apply(secret("new", "new"))
	s := newSite("a")
	s.Spec.SecretName = "old"
	k.Apply(s)
	c := named(&corev1.ConfigMap{}, s.Name)
	k.Eventually(c, text("old"))
	k.Update(s, func() { s.Spec.SecretName = "new" })
	k.Eventually(c, text("new"))
	converged(k, running, s)
	k.Wait("one Secret is watched, and not two", one)
	before := len(passes.gaps())
	old := secret("old", "")
	k.Update(old, func() { old.Data["text"] = []byte("changed") })
	waitIdle(k, running, observationPeriod)
	if after := len(passes.gaps()); after != before {
		t.Errorf("%d reconciles for a Secret that is no longer referenced", after-before)
	}
	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	waitIdle(k, running, quietPeriod)
	before = len(passes.gaps())
	k.Delete(secret("new", ""))
	waitIdle(k, running, quietPeriod)
	if after := len(passes.gaps()); after != before {
		t.Errorf("%d passes for an object that is gone", after-before)
	}
}

func TestReferenceWithoutPermission(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("a right is missing", testkit.Forbidden))
	var passes passTimes
	running := start(k, referenceReader(&passes), withoutPermission(k, "secrets"))
	k.Apply(secret("key", "one"))
	s := newSite("a")
	s.Spec.SecretName = "key"
	k.Apply(s)
	k.Eventually(s, testkit.Match("reported", func(s *site.Site) bool {
		_, reason, message := condition(s, conditions.Reconciling)
		return reason == "Retrying" && strings.HasPrefix(message, "reading Secret key: ") &&
			strings.Contains(message, "cannot list resource \"secrets\"")
	}))
	passes.wait(k, 4)
	waitIdle(k, running, quietPeriod)
	for _, r := range running.Recorder().Watches() {
		if r.Resource == "secrets" && r.Name == "" {
			t.Errorf("a watch of all Secrets: %s", r)
		}
	}
}
