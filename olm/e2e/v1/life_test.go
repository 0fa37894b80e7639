package v1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// An operator is installed in its previous version, upgraded to the latest, downgraded and uninstalled. Its objects survive
// upgrades and downgrades. A broken version stays in the catalog, because it may be installed somewhere.
func TestLife(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			i := newInstallation(t, k, startOLM(t, k), name)
			var err error
			if i.observer, err = fixture.NewObserver(t.Context(), k.Client, k.Config, k.Namespace); err != nil {
				t.Fatal(err)
			}
			i.offer(i.Previous)
			i.install()
			i.waitInstalled(i.Previous)
			i.checkPermissions(i.Previous)
			i.checkWorks(i.Previous)
			objects := i.populate()
			before := i.stableChildren(i.Previous)

			i.offer(i.Current)
			i.disableCRDCheck(i.Current)
			i.waitInstalled(i.Current)
			i.checkPermissions(i.Current)
			i.checkWorks(i.Current)
			i.waitReady(objects)
			after := i.stableChildren(i.Current)
			fixture.IgnoreUpgradeChanges(before, after)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the upgrade changed what belongs to objects, -was +is:\n%s", diff)
			}
			before = i.children()
			i.checkUnsafeVersionRejected()
			i.waitReady(objects)
			if diff := cmp.Diff(before, i.children()); diff != "" {
				t.Errorf("what OLM refused changed what belongs to objects, -was +is:\n%s", diff)
			}

			i.make(i.Repaired, func(*apiextensionsv1.CustomResourceDefinition) {})
			i.offer(i.Repaired)
			i.waitInstalled(i.Repaired)
			i.checkPermissions(i.Repaired)
			i.checkWorks(i.Repaired)
			i.waitReady(objects)

			i.downgrade(objects)
			i.uninstall(i.Previous, objects)
			removeCatalog(i.k, i.catalog)
		})
	}
}

// unsafeChanges lists the changes that OLM considers unsafe, by the name of the version and of the definition. OLM rejects
// each change that it has no rule for: new validation rules and, in the version under test, descriptions.
var unsafeChanges = map[string]map[string][]string{
	"copyrator 0.2.0": {"copyrators.flant.com": {"^.conflictPolicy", "^.targetNamespaces"}},
}

// disableCRDCheck lets OLM install a version that it rejects, because the current definitions differ from the previous ones,
// and enables the check again afterwards.
func (i *installation) disableCRDCheck(version string) {
	i.t.Helper()
	fields := unsafeChanges[i.name+" "+i.Current]
	if fields == nil {
		return
	}
	i.waitRejected(version, fields)
	i.k.Update(i.extension, func() {
		i.set("None", "spec", "install", "preflight", "crdUpgradeSafety", "enforcement")
	})
	i.waitInstalled(version)
	i.k.Update(i.extension, func() { unstructured.RemoveNestedField(i.extension.Object, "spec", "install") })
}

// downgrade lets OLM install older versions, which requires a policy.
func (i *installation) downgrade(objects []*unstructured.Unstructured) {
	i.t.Helper()
	before := i.stableChildren(i.Repaired)
	i.pin(i.Current)
	i.k.Eventually(i.extension, testkit.Match("the older version is refused", func(u *unstructured.Unstructured) bool {
		p := v1.Condition(u, "Progressing")
		return p != nil && p.Reason == "Retrying" && strings.Contains(p.Message, "no bundles found") &&
			strings.Contains(p.Message, i.Current) && v1.Installed(u) == i.Repaired
	}))
	i.k.Update(i.extension, func() { i.set("SelfCertified", append(catalogPath, "upgradeConstraintPolicy")...) })
	i.waitInstalled(i.Current)
	i.checkWorks(i.Current)
	i.waitReady(objects)
	if diff := cmp.Diff(before, i.stableChildren(i.Current)); diff != "" {
		i.t.Errorf("the way back changed what belongs to objects, -was +is:\n%s", diff)
	}

	i.pin(i.Previous)
	i.disableCRDCheck(i.Previous)
	i.waitInstalled(i.Previous)
	i.checkPermissions(i.Previous)
	i.checkWorks(i.Previous)
	i.waitReady(objects)
}

// catalogPath is the path of the catalog in the spec of a ClusterExtension.
var catalogPath = []string{"spec", "source", "catalog"}

// pin sets the version to install.
func (i *installation) pin(version string) {
	i.t.Helper()
	i.k.Update(i.extension, func() { i.set(version, append(catalogPath, "version")...) })
}

func (i *installation) set(value string, path ...string) {
	i.t.Helper()
	if err := unstructured.SetNestedField(i.extension.Object, value, path...); err != nil {
		i.t.Fatal(err)
	}
}

// waitRejected waits until OLM has rejected an upgrade because of these fields of definitions, and expects the previous
// version to stay.
func (i *installation) waitRejected(version string, fields map[string][]string) {
	i.t.Helper()
	had := ""
	i.k.Eventually(i.extension, testkit.Match("the upgrade is refused", func(u *unstructured.Unstructured) bool {
		p := v1.Condition(u, "Progressing")
		if p == nil || p.Reason != "Retrying" || !strings.Contains(p.Message, version) {
			return false
		}
		for crd, names := range fields {
			for _, name := range names {
				_, after, found := strings.Cut(p.Message, fmt.Sprintf("upgrade for CRD %q failed", crd))
				if !found || !strings.Contains(after, fmt.Sprintf("field %q", name)) {
					return false
				}
			}
		}
		had = v1.Installed(u)
		return v1.Condition(u, "Installed").Status == metav1.ConditionTrue
	}))
	if had == version {
		i.t.Errorf("OLM says that it has both refused and installed %s", version)
	}
	for _, o := range i.definitions(version) {
		i.k.Get(o)
	}
	i.checkPermissions(had)
}

// checkUnsafeVersionRejected publishes a version that would make objects invalid, and then one that does not.
func (i *installation) checkUnsafeVersionRejected() {
	i.t.Helper()
	fields := map[string][]string{}
	i.make(i.Broken, func(crd *apiextensionsv1.CustomResourceDefinition) {
		if path := retype(crd); path != "" {
			fields[crd.Name] = []string{path}
		}
	})
	if len(i.definitions(i.Current)) == 0 {
		return
	}
	if len(fields) == 0 {
		i.t.Fatal("no field of any kind can have another type")
	}
	i.offer(i.Broken)
	i.waitRejected(i.Broken, fields)
}
