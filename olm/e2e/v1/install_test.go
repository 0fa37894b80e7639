package v1_test

import (
	"path/filepath"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/testkit"
)

// All operators are installed from one catalog, with the unchanged manifests.
func TestInstall(t *testing.T) {
	k := testkit.New(t)
	lifecycle := startOLM(t, k)
	catalogs := map[string]*declcfg.DeclarativeConfig{}
	for _, name := range names(t) {
		catalog, err := olm.Render(t.Context(), filepath.Join(templates, name+".yaml"), olm.BundlesIn(released, bundles),
			olm.Published)
		if err != nil {
			t.Fatal(err)
		}
		catalogs[name] = catalog
	}
	catalog := addCatalog(t, k, "homeostat", publish(t, lifecycle, "latest", olm.BundlesIn(released, bundles), catalogs))
	var all []*installation
	for name := range catalogs {
		i := newInstallation(t, k, lifecycle, name)
		i.install()
		all = append(all, i)
	}
	for _, i := range all {
		i.waitInstalled(i.Current)
	}
	for _, i := range all {
		i.uninstall(i.Current, nil)
	}
	removeCatalog(k, catalog)
}
