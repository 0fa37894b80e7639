package olm_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/homeostat-dev/homeostat/olm"
)

// templates returns the templates of all operators.
func templates(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("templates/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("there are the templates %v, %v", files, err)
	}
	return files
}

var find = olm.BundlesIn("released", "../bundle")

// The stored catalog equals the catalog rendered from the templates and the bundles, and has each released version.
func TestCatalog(t *testing.T) {
	t.Parallel()
	for _, file := range templates(t) {
		operator := strings.TrimSuffix(filepath.Base(file), ".yaml")
		catalog, err := olm.Render(t.Context(), file, find, olm.Published)
		if err != nil {
			t.Fatal(err)
		}
		if err := olm.CheckComplete(catalog, filepath.Join("released", operator)); err != nil {
			t.Error(err)
		}
		var text bytes.Buffer
		if err := declcfg.WriteYAML(*catalog, &text); err != nil {
			t.Fatal(err)
		}
		stored, err := os.ReadFile(filepath.Join("catalog", operator, "catalog.yaml"))
		if diff := cmp.Diff(string(stored), text.String()); err != nil || diff != "" {
			t.Errorf("olm/catalog/%s is not what its template makes (run make catalog), %v, -is +should be:\n%s", operator, err, diff)
		}
		for _, b := range catalog.Bundles {
			if b.Image == "" || slices.ContainsFunc(b.Properties, func(p property.Property) bool {
				return p.Type == property.TypeBundleObject
			}) {
				t.Errorf("%s is not as it is published", b.Name)
			}
		}
	}
}

// Every version has an upgrade path to the latest version, in catalogs of both flavours and of all operators.
func TestEveryVersionReachesTheLatest(t *testing.T) {
	t.Parallel()
	for _, file := range templates(t) {
		for _, flavour := range []olm.Flavour{olm.Published, olm.Inline} {
			catalog, err := olm.Render(t.Context(), file, find, flavour)
			if err != nil {
				t.Fatal(err)
			}
			if len(catalog.Channels) != 1 || catalog.Channels[0].Name != "stable-v0" ||
				catalog.Packages[0].DefaultChannel != "stable-v0" {
				t.Fatalf("%s has the channels %+v", file, catalog.Channels)
			}
			versions, entries := olm.Versions(catalog), catalog.Channels[0].Entries
			if len(versions) < 2 || len(entries) != len(versions) {
				t.Errorf("%s has the versions %v and the entries %v", file, versions, entries)
			}
			if left := withoutUpgrade(catalog); len(left) > 0 {
				t.Errorf("%s: no upgrade leads from %v to the last version: %+v", file, left, entries)
			}
		}
	}
}

// withoutUpgrade returns the versions in the first channel that have no upgrade path to the latest version.
func withoutUpgrade(catalog *declcfg.DeclarativeConfig) []string {
	versions := olm.Versions(catalog)
	last := catalog.Packages[0].Name + ".v" + versions[len(versions)-1]
	arrive := map[string]bool{last: true}
	for range versions {
		for _, e := range catalog.Channels[0].Entries {
			for _, older := range append([]string{e.Replaces}, e.Skips...) {
				arrive[older] = arrive[older] || arrive[e.Name]
			}
		}
	}
	var left []string
	for _, e := range catalog.Channels[0].Entries {
		if !arrive[e.Name] {
			left = append(left, e.Name)
		}
	}
	return left
}

// Templates that are invalid, or that break an upgrade path, are rejected with a message that names the cause.
func TestTemplateErrors(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile("templates/database.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"a version that there is not": {"v0.1.0", "v0.1.5", "there is no bundle database v0.1.5"},
		"a released version is left": {
			"    - image: homeostat/database-bundle:v0.1.0\n", "", "clusters with that version are never upgraded",
		},
		"no bundle":            {"database-bundle:v0.1.0", "database:v0.1.0", "is no image of a bundle"},
		"no tag":               {"database-bundle:v0.1.0", "database-bundle", "is no image of a bundle"},
		"another schema":       {"olm.semver", "olm.lottery", "olm.lottery"},
		"an unknown field":     {"generateMinorChannels", "generateMinerChannels", "generateMinerChannels"},
		"twice the same":       {"v0.2.0", "v0.1.0", "0.1.0"},
		"a package of another": {"homeostat/database-bundle:v0.2.0", "homeostat/myapp-bundle:v0.2.0", "myapp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(string(good), c.from, c.to, 1)
			if text == string(good) {
				t.Fatalf("the template does not have %q", c.from)
			}
			file := filepath.Join(t.TempDir(), "database.yaml")
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			catalog, err := olm.Render(t.Context(), file, find, olm.Published)
			if err == nil {
				err = olm.CheckComplete(catalog, "released/database")
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
