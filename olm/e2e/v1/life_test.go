package v1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/olm/internal/stage"
	"github.com/homeostat-dev/homeostat/testkit"
)

// An operator from its former version to its last: installed, with objects that live through upgrades and the way back, and
// removed. A version that is broken stays in the catalog, as those do that people may have.
func TestLife(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			i := newInstallation(t, k, startOLM(t, k), name)
			var err error
			if i.observer, err = stage.NewObserver(t.Context(), k.Client, k.Config, k.Namespace); err != nil {
				t.Fatal(err)
			}
			i.offer(i.Previous)
			i.install()
			i.settles(i.Previous)
			i.hasRights(i.Previous)
			i.works(i.Previous)
			objects := i.populate()
			before := i.atRest(i.Previous)

			i.offer(i.Current)
			i.consents(i.Current)
			i.settles(i.Current)
			i.hasRights(i.Current)
			i.works(i.Current)
			i.areReady(objects)
			after := i.atRest(i.Current)
			stage.Upgraded(before, after)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the upgrade changed what belongs to objects, -was +is:\n%s", diff)
			}
			before = i.children()
			i.refusesToBreak()
			i.areReady(objects)
			if diff := cmp.Diff(before, i.children()); diff != "" {
				t.Errorf("what OLM refused changed what belongs to objects, -was +is:\n%s", diff)
			}

			i.make(i.Repaired, func(*apiextensionsv1.CustomResourceDefinition) {})
			i.offer(i.Repaired)
			i.settles(i.Repaired)
			i.hasRights(i.Repaired)
			i.works(i.Repaired)
			i.areReady(objects)

			i.goesBack(objects)
			i.uninstall(i.Previous, objects)
			removeCatalog(i.k, i.catalog)
		})
	}
}

// blocked is what OLM finds unsafe about a version, by its name and by that of the definition. It refuses each change that
// it has no rule for: new rules of validation and, in the version that runs here, descriptions, too.
var blocked = map[string]map[string][]string{
	"database 0.2.0": {"databases.techoral.com": {"^.spec.backup.schedule", "^.spec.podTemplate.affinity"}},
}

// consents lets OLM install a version where it does not do so by itself, because the definitions of the version of now
// differ from those before, and has it check again afterwards.
func (i *installation) consents(version string) {
	i.t.Helper()
	fields := blocked[i.name+" "+i.Current]
	if fields == nil {
		return
	}
	i.refuses(version, fields)
	i.k.Update(i.extension, func() {
		i.set("None", "spec", "install", "preflight", "crdUpgradeSafety", "enforcement")
	})
	i.settles(version)
	i.k.Update(i.extension, func() { unstructured.RemoveNestedField(i.extension.Object, "spec", "install") })
}

// goesBack has OLM install older versions, with a policy without which it does not.
func (i *installation) goesBack(objects []*unstructured.Unstructured) {
	i.t.Helper()
	before := i.atRest(i.Repaired)
	i.pin(i.Current)
	i.k.Eventually(i.extension, testkit.Match("the older version is refused", func(u *unstructured.Unstructured) bool {
		p := condition(u, "Progressing")
		return p != nil && p.Reason == "Retrying" && strings.Contains(p.Message, "no bundles found") &&
			strings.Contains(p.Message, i.Current) && i.installed(u) == i.Repaired
	}))
	i.k.Update(i.extension, func() { i.set("SelfCertified", append(catalogPath, "upgradeConstraintPolicy")...) })
	i.settles(i.Current)
	i.works(i.Current)
	i.areReady(objects)
	if diff := cmp.Diff(before, i.atRest(i.Current)); diff != "" {
		i.t.Errorf("the way back changed what belongs to objects, -was +is:\n%s", diff)
	}

	i.pin(i.Previous)
	i.consents(i.Previous)
	i.settles(i.Previous)
	i.hasRights(i.Previous)
	i.works(i.Previous)
	i.areReady(objects)
}

// catalogPath leads to what an extension says of the catalog.
var catalogPath = []string{"spec", "source", "catalog"}

// pin says which version is to be installed.
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

// refuses waits until OLM has refused to upgrade to a version because of these fields of definitions, and has what it had.
func (i *installation) refuses(version string, fields map[string][]string) {
	i.t.Helper()
	had := ""
	i.k.Eventually(i.extension, testkit.Match("the upgrade is refused", func(u *unstructured.Unstructured) bool {
		p := condition(u, "Progressing")
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
		had = i.installed(u)
		return condition(u, "Installed").Status == metav1.ConditionTrue
	}))
	if had == version {
		i.t.Errorf("OLM says that it has both refused and installed %s", version)
	}
	for _, o := range i.definitions(version) {
		i.k.Get(o)
	}
	i.hasRights(had)
}

// refusesToBreak offers a version that would make objects invalid, and then one that does not.
func (i *installation) refusesToBreak() {
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
	i.refuses(i.Broken, fields)
}
