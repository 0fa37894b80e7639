package versions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/testkit"
)

// requireContent checks the spec and the status of an object in a version.
func (d *kind) requireContent(version, name, want string) *unstructured.Unstructured {
	d.t.Helper()
	u := d.get(version, name)
	content := map[string]any{"spec": u.Object["spec"]}
	if s, ok := u.Object["status"]; ok {
		content["status"] = s
	}
	data, err := json.Marshal(content)
	if err != nil {
		d.t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		d.t.Errorf("%s in %s (-want +got):\n%s", name, version, diff)
	}
	return u
}

// Clients of both versions change one object in turn, with v1alpha1 as the storage version and then with v1beta1.
func TestClientsOfTwoVersions(t *testing.T) {
	for _, storage := range []string{"v1alpha1", "v1beta1"} {
		t.Run(storage, func(t *testing.T) {
			t.Parallel()
			d := install(t, testkit.New(t))
			if storage != "v1alpha1" {
				d.store(storage)
			}
			d.create("v1alpha1", "a", map[string]any{"size": "2Gi", "color": "red"})
			beta := d.requireContent("v1beta1", "a", `{"spec":{"sizeGi":2}}`)
			d.Update(beta, func() { set(t, beta, int64(5), "spec", "quota") })
			alpha := d.requireContent("v1alpha1", "a", `{"spec":{"color":"red","size":"2Gi"}}`)
			d.Update(alpha, func() { set(t, alpha, "3Gi", "spec", "size") })
			beta = d.requireContent("v1beta1", "a", `{"spec":{"quota":5,"sizeGi":3}}`)
			d.UpdateStatus(beta, func() { set(t, beta, "open", "status", "state") })
			alpha = d.requireContent("v1alpha1", "a", `{"spec":{"color":"red","size":"3Gi"},"status":{"phase":"open"}}`)
			generation := alpha.GetGeneration()
			d.UpdateStatus(alpha, func() { set(t, alpha, "shut", "status", "phase") })
			beta = d.requireContent("v1beta1", "a", `{"spec":{"quota":5,"sizeGi":3},"status":{"state":"shut"}}`)
			if beta.GetGeneration() != generation {
				t.Error("a change of the status has changed the generation")
			}
			d.Update(beta, func() { unstructured.RemoveNestedField(beta.Object, "spec", "quota") })
			alpha = d.requireContent("v1alpha1", "a", `{"spec":{"color":"red","size":"3Gi"},"status":{"phase":"shut"}}`)
			if a := alpha.GetAnnotations(); a != nil {
				t.Errorf("nothing has to be kept for v1beta1, and the annotations are %v", a)
			}
		})
	}
}

func set(t *testing.T, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// serverSideApply applies a spec, in JSON.
func (d *kind) serverSideApply(version, manager, spec string) {
	d.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"%s/%s","kind":"Gate","metadata":{"name":"a"},"spec":%s}`, d.group, version, spec)
	err := d.Client.Patch(d.t.Context(), d.gate(version, "a"), client.RawPatch(types.ApplyPatchType, []byte(body)),
		client.FieldOwner(manager))
	if err != nil {
		d.t.Fatal(err)
	}
}

// Field managers of two versions do not conflict about the annotation, and own what the other version shows.
func TestServerSideApplyInTwoVersions(t *testing.T) {
	t.Parallel()
	d := install(t, testkit.New(t))
	d.store("v1beta1")
	d.serverSideApply("v1alpha1", "old", `{"size":"2Gi","color":"red"}`)
	d.serverSideApply("v1beta1", "new", `{"quota":5}`)
	d.serverSideApply("v1alpha1", "old", `{"size":"3Gi","color":"blue"}`)
	d.requireContent("v1beta1", "a", `{"spec":{"quota":5,"sizeGi":3}}`)
	d.requireContent("v1alpha1", "a", `{"spec":{"color":"blue","size":"3Gi"}}`)

	body := fmt.Sprintf(`{"apiVersion":"%s/v1beta1","kind":"Gate","metadata":{"name":"a"},"spec":{"sizeGi":9}}`, d.group)
	err := d.Client.Patch(t.Context(), d.gate("v1beta1", "a"), client.RawPatch(types.ApplyPatchType, []byte(body)),
		client.FieldOwner("third"))
	if err == nil || !strings.Contains(err.Error(), `conflict with "old"`) {
		t.Errorf("the error is %v, and the size belongs to the manager old", err)
	}

	// A manager that begins to use the other version removes what it does not apply any more.
	d.serverSideApply("v1beta1", "old", `{"sizeGi":3}`)
	d.requireContent("v1alpha1", "a", `{"spec":{"size":"3Gi"}}`)
	d.serverSideApply("v1beta1", "new", `{}`)
	beta := d.requireContent("v1beta1", "a", `{"spec":{"sizeGi":3}}`)
	if kept := conversion.Kept(beta.GetAnnotations()); kept != nil {
		t.Errorf("the annotation keeps %v", kept)
	}
	for _, entry := range beta.GetManagedFields() {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), conversion.Annotation) {
			t.Errorf("manager %s owns the annotation", entry.Manager)
		}
	}
}

// A client learns which object cannot be converted, and why.
func TestConversionFailure(t *testing.T) {
	t.Parallel()
	d := install(t, testkit.New(t))
	u := d.gate("v1alpha1", "huge")
	u.SetAnnotations(map[string]string{"example.com/big": strings.Repeat("x", 200<<10)})
	u.Object["spec"] = map[string]any{"color": strings.Repeat("x", 100<<10)}
	if err := d.Client.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	err := d.Client.Get(t.Context(), client.ObjectKeyFromObject(u), d.gate("v1beta1", "huge"))
	want := "converting v1alpha1 Gate " + d.Namespace + "/huge to v1beta1: " +
		"what this version cannot express of [v1alpha1] needs annotations of "
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, without %s", err, want)
	}
}
