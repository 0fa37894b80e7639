package chaos_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// typedVersions names the versions of Team that the scheme has, in a child process of TestInvariantOfVersions.
const typedVersions = "TESTKIT_CHAOS_TYPED_VERSIONS"

const teamGroup = "versions.chaos.test"

// A team is ready or not.
type team struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`

	Status struct {
		Ready bool `json:"ready"`
	} `json:"status"`
}

type (
	teamV1alpha1 struct{ team }
	teamV1beta1  struct{ team }
	teamV1       struct{ team }
)

func (t *team) copied() team {
	theCopy := *t
	theCopy.ObjectMeta = *t.DeepCopy()
	return theCopy
}

func (t *teamV1alpha1) DeepCopyObject() runtime.Object { return &teamV1alpha1{t.copied()} }
func (t *teamV1beta1) DeepCopyObject() runtime.Object  { return &teamV1beta1{t.copied()} }
func (t *teamV1) DeepCopyObject() runtime.Object       { return &teamV1{t.copied()} }

// teamEnv serves Team in v1alpha1 and v1beta1. The scheme has the versions with these names.
func teamEnv(typed string) testkit.Env {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "teams." + teamGroup}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: teamGroup, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{
			Plural: "teams", Singular: "team", Kind: "Team", ListKind: "TeamList",
		},
	}
	all := true
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == "v1alpha1",
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &all},
			},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		})
	}
	return testkit.Env{Objects: []client.Object{crd}, AddToScheme: func(scheme *runtime.Scheme) error {
		types := map[string]runtime.Object{"v1alpha1": &teamV1alpha1{}, "v1beta1": &teamV1beta1{}, "v1": &teamV1{}}
		for version := range strings.FieldsSeq(typed) {
			if made, exists := types[version]; exists {
				scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: teamGroup, Version: version, Kind: "Team"}, made)
			}
		}
		return nil
	}}
}

func newTeam() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: teamGroup, Version: "v1alpha1", Kind: "Team"})
	return u
}

// setupTeams makes each Team ready.
func setupTeams(mgr manager.Manager) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).Named("teams").For(newTeam()).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			u := newTeam()
			if err := c.Get(ctx, req.NamespacedName, u); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if ready, _, _ := unstructured.NestedBool(u.Object, "status", "ready"); ready {
				return reconcile.Result{}, nil
			}
			u.Object["status"] = map[string]any{"ready": true}
			return reconcile.Result{}, c.Status().Update(ctx, u)
		}))
}

// readyTeam names the type of a Team that is ready.
func readyTeam(objects []client.Object) string {
	for _, o := range objects {
		var ready bool
		switch o := o.(type) {
		case *teamV1alpha1:
			ready = o.Status.Ready
		case *teamV1beta1:
			ready = o.Status.Ready
		case *teamV1:
			ready = o.Status.Ready
		case *unstructured.Unstructured:
			ready, _, _ = unstructured.NestedBool(o.Object, "status", "ready")
		}
		if ready {
			return fmt.Sprintf("%T is ready", o)
		}
	}
	return ""
}

// The API server serves Team in v1alpha1 and v1beta1, and prefers v1beta1. An invariant receives the Go type of the version
// that the scheme has, and K.States returns that version. The sweeps fail on purpose in child processes, and the test checks
// the output.
func TestInvariantOfVersions(t *testing.T) {
	t.Parallel()
	if os.Getenv(typedVersions) != "" {
		create := func(k *testkit.K) client.Object {
			u := newTeam()
			u.SetName("blue")
			return k.Apply(u)
		}
		k := testkit.New(t)
		t.Log("the state has version", k.States(create(k))[0].GroupVersionKind().Version)
		scenario := chaos.Scenario{{Name: "create", Do: func(k *testkit.K) { create(k) }}}
		chaos.Sweep(t, chaos.FromSetup(setupTeams), scenario, chaos.Faults{chaos.Crash},
			chaos.Invariant("no Team is ready", readyTeam))
		return
	}
	for typed, test := range map[string]struct{ finding, state string }{
		"v1alpha1":         {"never: no Team is ready: *chaos_test.teamV1alpha1 is ready", "v1alpha1"},
		"v1beta1":          {"never: no Team is ready: *chaos_test.teamV1beta1 is ready", "v1beta1"},
		"v1alpha1 v1beta1": {"never: no Team is ready: *chaos_test.teamV1beta1 is ready", "v1beta1"},
		"v1alpha1 v1":      {"never: no Team is ready: *chaos_test.teamV1alpha1 is ready", "v1alpha1"},
		"none":             {"never: no Team is ready: *unstructured.Unstructured is ready", "v1beta1"},
		"v1": {"the API server sends Team objects as versions.chaos.test/v1beta1, " +
			"but the scheme of testkit.Env has their Go type for [versions.chaos.test/v1] only", "v1beta1"},
	} {
		t.Run(typed, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.short", "-test.run=^TestInvariantOfVersions$")
			cmd.Env = append(os.Environ(), typedVersions+"="+typed)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the sweep passed")
			}
			for _, want := range []string{test.finding, "the state has version " + test.state + "\n"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}
