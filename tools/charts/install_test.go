package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// A release from its first day to its last, in a namespace that admits nothing but restricted pods: for all namespaces,
// upgraded to work in one, removed, installed again. At each stage the pods of the release run, with their arguments and the
// rights of their ServiceAccount, and nothing else: Helm waits for them.
func TestLife(t *testing.T) {
	eachChart(t, func(t *testing.T, dir string) {
		r := newReleases(t, dir)
		home, elsewhere := r.namespace("home", restricted), r.namespace("elsewhere", restricted)
		watched, other := r.namespace("watched", nil), r.namespace("other", nil)

		// Two pods become ready: the namespace admits them.
		first := r.install(home, load(t, dir), "replicas=2")
		r.works(home, r.namespace("first", nil))
		r.metricsAreServed(home)

		// A second release would work on the same objects.
		r.refused(elsewhere, load(t, dir), "exists and cannot be imported")
		r.refused(elsewhere, load(t, dir), "ClusterRole", r.withoutCRDs()...)

		// The next version has another definition, and works in one namespace.
		second := r.upgrade(home, withDefinitions(load(t, dir), "second"), "watchNamespaces={"+watched+"}")
		r.definitionsAre("second")
		r.gone(missing(first, second))
		r.hasRightsOnlyIn(home, watched)
		r.works(home, watched)

		// Others work in other namespaces, but not in that one.
		r.refused(elsewhere, load(t, dir), "Role", append(r.withoutCRDs(), "watchNamespaces={"+watched+"}")...)
		beside := r.install(elsewhere, load(t, dir), append(r.withoutCRDs(), "watchNamespaces={"+other+"}")...)
		r.works(elsewhere, other)
		r.uninstall(elsewhere)
		r.gone(beside)

		// The definitions stay, and with them the objects, when they are left out and when nothing else stays.
		r.upgrade(home, load(t, dir), append(r.withoutCRDs(), "watchNamespaces={"+watched+"}")...)
		r.definitionsAre("second")
		r.uninstall(home)
		r.gone(second)
		r.definitionsAre("second")
		r.samplesStay(watched, other)

		// They know to which release they belonged.
		if len(r.definitions) > 0 {
			r.refused(elsewhere, load(t, dir), "exists and cannot be imported")
		}
		r.takeOwnership = true
		r.install(elsewhere, withDefinitions(load(t, dir), "third"))
		r.definitionsAre("third")
		r.works(elsewhere, r.namespace("last", nil))
	})
}

const revision = "test.homeostat.dev/revision"

// withDefinitions changes the definitions in a chart, as a next version would.
func withDefinitions(c *chart.Chart, name string) *chart.Chart {
	const keep = "helm.sh/resource-policy: keep"
	for _, template := range c.Templates {
		changed := strings.ReplaceAll(string(template.Data), keep, keep+"\n    "+revision+": "+name)
		template.Data = []byte(changed)
	}
	return c
}

var restricted = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}

// namespace makes one, whose name it returns.
func (r *releases) namespace(suffix string, labels map[string]string) string {
	r.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.project.Name + "-" + suffix, Labels: labels}}
	if err := r.k.Client.Create(r.t.Context(), ns); err != nil {
		r.t.Fatal(err)
	}
	return ns.Name
}

// withoutCRDs is the value without which a second release cannot stand beside the first.
func (r *releases) withoutCRDs() []string {
	if len(r.definitions) == 0 {
		return nil
	}
	return []string{"crds.enabled=false"}
}

// definitionsAre wants all definitions to be those of that version of the chart.
func (r *releases) definitionsAre(want string) {
	r.t.Helper()
	for _, crd := range r.definitions {
		live := crd.DeepCopy()
		r.k.Get(live)
		if got := live.GetAnnotations()[revision]; got != want || live.GetDeletionTimestamp() != nil {
			r.t.Errorf("%s is the %q one, want the %q one; it is deleted at %v",
				crd.GetName(), got, want, live.GetDeletionTimestamp())
		}
	}
}

// missing are the objects of one release that another does not have.
func missing(before, after []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(before), func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(after, func(other *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == other.GroupVersionKind() &&
				client.ObjectKeyFromObject(o) == client.ObjectKeyFromObject(other)
		})
	})
}

// gone waits until there is none of the objects, definitions apart.
func (r *releases) gone(objects []*unstructured.Unstructured) {
	r.t.Helper()
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			r.k.Eventually(o.DeepCopy(), testkit.Gone())
		}
	}
}

// hasRightsOnlyIn wants the ServiceAccount to have no binding for the cluster, and Roles in its own namespace and one other.
func (r *releases) hasRightsOnlyIn(home, watched string) {
	r.t.Helper()
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: home, Name: r.account(home)}
	var everywhere rbacv1.ClusterRoleBindingList
	var some rbacv1.RoleBindingList
	for _, list := range []client.ObjectList{&everywhere, &some} {
		if err := r.k.Client.List(r.t.Context(), list); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, b := range everywhere.Items {
		if slices.Contains(b.Subjects, account) {
			r.t.Errorf("ClusterRoleBinding %s gives it rights everywhere", b.Name)
		}
	}
	inWatched := false
	for _, b := range some.Items {
		if slices.Contains(b.Subjects, account) && b.Namespace != home && b.Namespace != watched {
			r.t.Errorf("RoleBinding %s/%s gives it rights", b.Namespace, b.Name)
		}
		inWatched = inWatched || slices.Contains(b.Subjects, account) && b.Namespace == watched
	}
	if !inWatched {
		r.t.Errorf("it has no rights in %s", watched)
	}
}

// account is the ServiceAccount of the release's pods.
func (r *releases) account(home string) string {
	return r.deployment(home).Spec.Template.Spec.ServiceAccountName
}

func (r *releases) deployment(home string) *appsv1.Deployment {
	r.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: r.controller}}
	r.k.Get(deployment)
	return deployment
}

// works waits until the operator of the release in a namespace has made the samples ready in another.
func (r *releases) works(home, in string) {
	r.t.Helper()
	for _, sample := range r.samples(in) {
		r.k.Apply(sample)
	}
	for _, sample := range r.samples(in) {
		r.k.Eventually(sample, testkit.Ready())
	}
	r.touched(in)
	r.ranInOrder(home)
}

// touched waits until the operator itself has written to each sample of a kind of its own, or to one if it has no kind:
// they would not be as they are without it.
func (r *releases) touched(in string) {
	r.t.Helper()
	r.k.Wait("the operator to write to the samples", func(ctx context.Context) error {
		var untouched []string
		samples := r.samples(in)
		for _, sample := range samples {
			if err := r.k.Client.Get(ctx, client.ObjectKeyFromObject(sample), sample); err != nil {
				return err
			}
			written := slices.ContainsFunc(sample.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
				return strings.HasPrefix(m.Manager, r.project.Name)
			})
			switch {
			case written && len(r.definitions) == 0:
				return nil
			case !written && (len(r.definitions) == 0 || r.defines(sample)):
				untouched = append(untouched, sample.GetKind()+" "+sample.GetName())
			}
		}
		if len(untouched) > 0 {
			return fmt.Errorf("it has not written to %s", strings.Join(untouched, ", "))
		}
		return nil
	})
}

// defines says whether the object is of a kind of the operator.
func (r *releases) defines(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(r.definitions, func(crd *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		return kind == o.GetKind()
	})
}

// samples are those of the operator, in a namespace, which also takes the place of theirs where they name it. A Namespace
// among them stands for that one.
func (r *releases) samples(in string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, sample := range r.project.Samples {
		o := sample.DeepCopy()
		replace(o.Object, o.GetNamespace(), in)
		if o.GetKind() == "Namespace" {
			o.SetName(in)
		} else {
			o.SetNamespace(in)
		}
		all = append(all, o)
	}
	return all
}

// replace puts a text in the place of another one among the values of an object.
func replace(v any, old, text string) any {
	switch v := v.(type) {
	case string:
		if v == old && old != "" {
			return text
		}
	case []any:
		for i := range v {
			v[i] = replace(v[i], old, text)
		}
	case map[string]any:
		for key := range v {
			v[key] = replace(v[key], old, text)
		}
	}
	return v
}

func (r *releases) samplesStay(namespaces ...string) {
	r.t.Helper()
	for _, namespace := range namespaces {
		for _, sample := range r.samples(namespace) {
			r.k.Get(sample)
			if sample.GetDeletionTimestamp() != nil {
				r.t.Errorf("%s %s in %s is being deleted", sample.GetKind(), sample.GetName(), namespace)
			}
		}
	}
}

// loadProject reads the operator's samples and where its program is.
func loadProject(t *testing.T, dir string) *sandbox.Project {
	t.Helper()
	project, err := sandbox.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Samples) == 0 {
		t.Fatal("it has no samples")
	}
	return project
}
