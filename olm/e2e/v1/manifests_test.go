package v1_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// newestOLM is the latest version of OLM v1 that was checked. The module proxy has its definitions, but not all of its
// dependencies.
const newestOLM = v1.Module + "@v1.11.0"

// The manifests are valid for the OLM under test and for the newest one, which no longer needs an account for the
// installation. The OLM under test comes last, so that its definitions remain installed.
func TestManifests(t *testing.T) {
	k := testkit.New(t)
	for _, version := range []struct {
		name, dir, module, folders string
		account                    bool // whether an account is required
	}{
		{"the newest", t.TempDir(), newestOLM, "helm/olmv1/base/*/crd/standard", false},
		{"the one that runs here", module, v1.Module, "config/base/*/crd/bases", true},
	} {
		crds, err := v1.Definitions(t.Context(), version.dir, version.module, version.folders)
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range crds {
			have := &unstructured.Unstructured{}
			have.SetGroupVersionKind(crd.GetObjectKind().GroupVersionKind())
			have.SetName(crd.GetName())
			k.Update(have, func() { have.Object["spec"] = crd.(*unstructured.Unstructured).Object["spec"] })
		}
		without := manifest(t, "database.yaml", "ClusterExtension")
		unstructured.RemoveNestedField(without.Object, "spec", "serviceAccount")
		k.Wait("the API server knows "+version.name, func(ctx context.Context) error {
			if err := dryRun(ctx, k, without); (err != nil) != version.account {
				return fmt.Errorf("an extension without an account: %w", err)
			}
			return nil
		})
		t.Run(version.name, func(t *testing.T) { checkValid(t, k) })
	}
}

func checkValid(t *testing.T, k *testkit.K) {
	t.Helper()
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil || len(files) != len(names(t))+1 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		objects, err := fixture.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if o.GetNamespace() != "" {
				o.SetNamespace(k.Namespace)
			}
			if err := dryRun(t.Context(), k, o); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			// The API server accepts homeostat/catalog as an image of a registry named homeostat. OLM rejects it afterwards.
			ref, ok, _ := unstructured.NestedString(o.Object, "spec", "source", "image", "ref")
			if registry, _, _ := strings.Cut(ref, "/"); ok && !strings.ContainsAny(registry, ".:") {
				t.Errorf("%s: the image %s names no registry", file, ref)
			}
		}
	}
	for name, c := range map[string]struct {
		file, kind string
		value      string
		path       []string
	}{
		"a field that there is not": {"database.yaml", "ClusterExtension", "x", []string{"spec", "channel"}},
		"a source of another kind":  {"database.yaml", "ClusterExtension", "Bundle", []string{"spec", "source", "sourceType"}},
		"an image without a tag": {
			"catalog.yaml", "ClusterCatalog", "registry.example.com/catalog", []string{"spec", "source", "image", "ref"},
		},
	} {
		o := manifest(t, c.file, c.kind)
		if err := unstructured.SetNestedField(o.Object, c.value, c.path...); err != nil {
			t.Fatal(err)
		}
		if err := dryRun(t.Context(), k, o); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			t.Errorf("%s is not refused: %v", name, err)
		}
	}
}

// dryRun creates an object with a server-side dry run.
func dryRun(ctx context.Context, k *testkit.K, o *unstructured.Unstructured) error {
	return k.Client.Create(ctx, o.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))
}

// manifest returns the object of a kind in a file.
func manifest(t *testing.T, file, kind string) *unstructured.Unstructured {
	t.Helper()
	objects, err := fixture.Read(filepath.Join(manifests, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == kind {
			return o
		}
	}
	t.Fatal(errors.New("there is no " + kind + " in " + file))
	return nil
}
