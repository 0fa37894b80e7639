package main

import (
	"context"
	"fmt"
	"path/filepath"
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

// A release is installed for all namespaces, upgraded to one watched namespace if the operator can do that, uninstalled and
// installed again, in a namespace that admits restricted pods only. At each stage, Helm waits for the pods of the release.
// They run with their arguments and with the permissions of their ServiceAccount only. Webhooks work in each release. No
// upgrade takes the conversion from a definition.
func TestLife(t *testing.T) {
	eachChart(t, func(t *testing.T, dir string) {
		r := newReleases(t, dir)
		home, elsewhere := r.namespace("home", restricted), r.namespace("elsewhere", restricted)
		watched, other := r.namespace("watched", nil), r.namespace("other", nil)
		watchOnly := func(namespace string) []string {
			if !hasPart(dir, overlayNamespaced) {
				return nil
			}
			return []string{"watchNamespaces={" + namespace + "}"}
		}

		// Two pods become ready, so the namespace admits them.
		first := r.install(home, load(t, dir), "replicas=2")
		r.waitReady(home, r.namespace("first", nil))
		if hasPart(dir, "access") {
			r.checkMetrics(home)
		}
		checkConversion := r.watchConversion(first)

		// A second release would reconcile the same objects.
		r.checkInstallFails(elsewhere, load(t, dir), "exists and cannot be imported")
		r.checkInstallFails(elsewhere, load(t, dir), "ClusterRole", r.beside()...)

		// The next version has a changed definition, and watches one namespace.
		second := r.upgrade(home, withDefinitions(load(t, dir), "second"), watchOnly(watched)...)
		r.checkDefinitions("second")
		r.waitGone(missing(first, second))
		if hasPart(dir, overlayNamespaced) {
			r.checkPermissions(home, watched)
		}
		r.waitReady(home, watched)

		// Other releases may watch other namespaces, but not that one.
		if hasPart(dir, overlayNamespaced) {
			r.checkInstallFails(elsewhere, load(t, dir), "Role", append(r.beside(), watchOnly(watched)...)...)
			beside := r.install(elsewhere, load(t, dir), append(r.beside(), watchOnly(other)...)...)
			r.waitReady(elsewhere, other)
			r.uninstall(elsewhere)
			r.waitGone(beside)
		} else {
			r.waitReady(home, other)
		}

		// The definitions and the objects stay when the definitions are left out, and when the release is uninstalled.
		r.upgrade(home, load(t, dir), append(r.withoutCRDs(), watchOnly(watched)...)...)
		r.checkDefinitions("second")
		checkConversion("second")
		r.waitReady(home, watched)
		r.uninstall(home)
		r.waitGone(second)
		r.checkDefinitions("second")
		r.samplesStay(watched, other)

		// Their annotations name their former release.
		if len(r.definitions) > 0 {
			r.checkInstallFails(elsewhere, load(t, dir), "exists and cannot be imported")
		}
		r.takeOwnership = true
		r.install(elsewhere, withDefinitions(load(t, dir), "third"))
		r.checkDefinitions("third")
		r.waitReady(elsewhere, r.namespace("last", nil))
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

// namespace creates a namespace and returns its name.
func (r *releases) namespace(suffix string, labels map[string]string) string {
	r.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.project.Name + "-" + suffix, Labels: labels}}
	if err := r.k.Client.Create(r.t.Context(), ns); err != nil {
		r.t.Fatal(err)
	}
	return ns.Name
}

// beside returns the values that a second release needs beside the first.
func (r *releases) beside() []string {
	if !r.webhooks {
		return r.withoutCRDs()
	}
	return append(r.withoutCRDs(), "webhooks.enabled=false")
}

// withoutCRDs returns the value that leaves the definitions out.
func (r *releases) withoutCRDs() []string {
	if len(r.definitions) == 0 {
		return nil
	}
	return []string{"crds.enabled=false"}
}

// checkDefinitions expects all definitions to be of that version of the chart.
func (r *releases) checkDefinitions(want string) {
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

// missing returns the objects of one release that another does not have.
func missing(before, after []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(before), func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(after, func(other *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == other.GroupVersionKind() &&
				client.ObjectKeyFromObject(o) == client.ObjectKeyFromObject(other)
		})
	})
}

// waitGone waits until all objects except definitions are deleted.
func (r *releases) waitGone(objects []*unstructured.Unstructured) {
	r.t.Helper()
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			r.k.Eventually(o.DeepCopy(), testkit.Gone())
		}
	}
}

// checkPermissions expects the ServiceAccount to have no ClusterRoleBinding except for the certificate of webhooks, and
// Roles in its own namespace and one other only.
func (r *releases) checkPermissions(home, watched string) {
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
		certificate := r.webhooks && strings.HasSuffix(b.Name, "-webhook")
		if slices.Contains(b.Subjects, account) && !certificate {
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

// account returns the ServiceAccount of the release's pods.
func (r *releases) account(home string) string {
	return r.deployment(home).Spec.Template.Spec.ServiceAccountName
}

func (r *releases) deployment(home string) *appsv1.Deployment {
	r.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: r.controller}}
	r.k.Get(deployment)
	return deployment
}

// waitReady waits until the operator of the release in a namespace has made the samples in another namespace ready.
func (r *releases) waitReady(home, in string) {
	r.t.Helper()
	for _, sample := range r.samples(in) {
		r.k.Apply(sample)
	}
	for _, sample := range r.samples(in) {
		r.k.Eventually(sample, testkit.Ready())
	}
	if r.project.Name == filepath.Base(mailbox) {
		r.waitDenied(in)
	}
	r.waitWritten(in)
	r.checkPods(home)
}

// waitWritten waits until the operator itself has written to each sample of its own kinds, or to one sample if it has no
// kind. That proves that the operator works.
func (r *releases) waitWritten(in string) {
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
			case !written && (len(r.definitions) == 0 || r.ownsKind(sample)):
				untouched = append(untouched, sample.GetKind()+" "+sample.GetName())
			}
		}
		if len(untouched) > 0 {
			return fmt.Errorf("it has not written to %s", strings.Join(untouched, ", "))
		}
		return nil
	})
}

// ownsKind reports whether the operator defines the kind of the object.
func (r *releases) ownsKind(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(r.definitions, func(crd *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		return kind == o.GetKind()
	})
}

// samples returns the operator's samples in a namespace, which also replaces the namespaces that the samples name. A
// Namespace among them is replaced by that namespace.
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

// replace replaces a text in all values of an object.
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
			if !r.isStored(sample) {
				continue // no pod converts it
			}
			r.k.Get(sample)
			if sample.GetDeletionTimestamp() != nil {
				r.t.Errorf("%s %s in %s is being deleted", sample.GetKind(), sample.GetName(), namespace)
			}
		}
	}
}

// loadProject reads the operator's samples and the location of its program.
func loadProject(t *testing.T, dir string) *sandbox.Project {
	t.Helper()
	config, err := filepath.EvalSymlinks(filepath.Join(dir, "config")) // see withChart
	if err != nil {
		t.Fatal(err)
	}
	project, err := sandbox.Load(t.Context(), filepath.Dir(config))
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Samples) == 0 {
		t.Fatal("it has no samples")
	}
	return project
}
