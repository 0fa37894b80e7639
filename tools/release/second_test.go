package main

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secondRelease builds and publishes a second release as described in CONTRIBUTING.md. It is a pre-release: its catalog
// names only images that are in the registry, and its manifests name no tag that does not exist.
func secondRelease(f *fixture, to string) {
	f.t.Helper()
	const version = "0.3.0-rc.1"
	bundle := "bundle/configrollout/manifests/configrollout-operator.clusterserviceversion.yaml"
	if text := f.read(filepath.Join(f.root, bundle)); !strings.Contains(text, "image: homeostat/configrollout@sha256:") {
		f.t.Fatalf("the bundle in git does not name images without a registry:\n%s", text)
	}
	f.move("bundle/configrollout", "olm/released/configrollout/v0.2.0")
	base := "operators/configrollout/config/manifests/bases/configrollout-operator.clusterserviceversion.yaml"
	f.write(base, strings.ReplaceAll(f.read(filepath.Join(f.root, base)), "0.2.0", version))
	template := "olm/templates/configrollout.yaml"
	f.write(template, f.read(filepath.Join(f.root, template))+"    - image: homeostat/configrollout-bundle:v"+version+"\n")
	f.write("CHANGELOG.md", "# Changelog\n\n## ["+version+"] - 2026-12-24\n\nIt is new.\n")
	f.withBundle(version)

	latest := head(f.t, to+"catalog:latest")
	folder := filepath.Join(f.t.TempDir(), "second")
	if _, err := f.rehearse(folder, "-to", to, "-version", version); err != nil {
		f.t.Fatal(err)
	}
	publish := []string{"publish", "-o", folder, "-root", f.root, "-tools", tools, "-to", to}
	if err := run(f.t.Context(), publish, io.Discard); err != nil {
		f.t.Fatal(err)
	}
	if got := head(f.t, to+"catalog:latest"); got != latest {
		f.t.Errorf("the catalog called latest is %s, want %s, which is that of 0.2.0", got, latest)
	}
	for _, olm := range []string{"v0", "v1"} {
		file := "install/catalog-for-olm-" + olm + ".yaml"
		if named := imagesIn(f.read(filepath.Join(folder, file))); !slices.Equal(named, []string{to + "catalog:v" + version}) {
			f.t.Errorf("%s names %v", file, named)
		}
	}
	named := imagesIn(f.read(filepath.Join(folder, "catalog/configrollout/catalog.yaml")))
	if len(named) != 4 { // two bundles and their operators
		f.t.Errorf("the catalog names %v", named)
	}
	for _, ref := range named {
		if !strings.HasPrefix(ref, to) {
			f.t.Errorf("the catalog names %s, which is not in %s", ref, to)
			continue
		}
		head(f.t, ref)
	}
}

// imagesIn returns the names of images in a manifest or a catalog, each once.
func imagesIn(text string) (names []string) {
	for _, found := range regexp.MustCompile(`(?m)(?:image|ref|containerImage): (\S+)$`).FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The setting that makes OLM v0 use its own opm is added to existing settings.
func TestCatalogSource(t *testing.T) {
	t.Parallel()
	const want = "kind: CatalogSource\nspec:\n  grpcPodConfig:\n    extractContent:\n      catalogDir: /configs\n" +
		"    securityContextConfig: restricted\n  image: r/catalog:v1.2.3\n"
	const without = "kind: CatalogSource\nspec:\n  image: x\n  grpcPodConfig:\n    securityContextConfig: restricted\n"
	for name, text := range map[string]string{
		"without":              without,
		"with it":              without + "    extractContent:\n      catalogDir: /configs\n",
		"with a cache in mind": without + "    extractContent:\n      catalogDir: /x\n      cacheDir: /cache\n",
	} {
		if got, err := withCatalog([]byte(text), "r/catalog:v1.2.3"); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	_, err := withCatalog([]byte("kind: Subscription\n"), "r/catalog:latest")
	checkError(t, "something else", err, "it is a Subscription, not a CatalogSource or a ClusterCatalog")
}
