package olm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/action"
	"github.com/operator-framework/operator-registry/alpha/action/migrations"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	catalogs "github.com/operator-framework/operator-registry/alpha/template"
	"github.com/operator-framework/operator-registry/pkg/image"
	"github.com/sirupsen/logrus"

	"github.com/homeostat-dev/homeostat/bundle"
)

// A Flavour selects the content of a catalog.
type Flavour int

const (
	// Published has the image of each bundle, and the texts of a console.
	Published Flavour = iota
	// Inline has the content of each bundle, for tests.
	Inline
)

// Bundles returns the folder of the bundle that an image in a template names.
type Bundles func(image string) (dir string, err error)

// BundlesIn returns the Bundles below two folders. The bundle homeostat/database-bundle:v0.2.0 is in
// released/database/v0.2.0 or, if that version is the current one, in current/database.
func BundlesIn(released, current string) Bundles {
	return func(ref string) (string, error) {
		name, tag, _ := strings.Cut(ref[strings.LastIndexByte(ref, '/')+1:], ":")
		operator, ok := strings.CutSuffix(name, "-bundle")
		if !ok || tag == "" {
			return "", fmt.Errorf("%q is no image of a bundle: it is OPERATOR-bundle:vVERSION", ref)
		}
		dir := filepath.Join(released, operator, tag)
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
		dir = filepath.Join(current, operator)
		if version, err := bundle.Version(dir); err != nil || "v"+version != tag {
			return "", errors.Join(err,
				fmt.Errorf("there is no bundle %s %s, neither in %s nor in %s", operator, tag, released, current))
		}
		return dir, nil
	}
}

// noRegistry pulls nothing, because all images of bundles are folders here.
type noRegistry struct{ image.Registry }

// Render renders a catalog from a template. It rejects a catalog with versions that no sequence of upgrades connects.
func Render(ctx context.Context, file string, find Bundles, flavour Flavour) (*declcfg.DeclarativeConfig, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	logrus.SetLevel(logrus.WarnLevel) // the library prints which optional files are missing
	var migrate *migrations.Migrations
	if flavour == Published {
		if migrate, err = migrations.NewMigrations(migrations.AllMigrations); err != nil {
			return nil, fmt.Errorf("preparing the catalog: %w", err)
		}
	}
	render := func(ctx context.Context, ref string) (*declcfg.DeclarativeConfig, error) {
		dir, err := find(ref)
		if err != nil {
			return nil, err
		}
		name, err := template.New("image").Parse(ref)
		if err != nil {
			return nil, fmt.Errorf("reading the name of an image: %w", err)
		}
		return action.Render{
			Refs: []string{dir}, Registry: noRegistry{}, AllowedRefMask: action.RefBundleDir, Migrations: migrate,
			ImageRefTemplate: name,
		}.Run(ctx)
	}
	t, r, err := catalogs.NewRegistry().CreateTemplateBySchema(bytes.NewReader(data), render)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	catalog, err := t.Render(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", file, err)
	}
	if flavour == Inline {
		for i := range catalog.Bundles {
			catalog.Bundles[i].Image = ""
		}
	}
	if _, err := declcfg.ConvertToModel(*catalog); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := checkConnected(catalog); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return catalog, nil
}

// checkConnected rejects a channel with a version that has no upgrade path to the latest version. Versions of one major
// number are connected by default. A published version that the template leaves out breaks the chain; another version has to
// replace or to skip it.
func checkConnected(catalog *declcfg.DeclarativeConfig) error {
	for _, c := range catalog.Channels {
		entries := map[string]declcfg.ChannelEntry{}
		for _, e := range c.Entries {
			entries[e.Name] = e
		}
		replaced := map[string]bool{}
		for _, e := range c.Entries {
			for _, name := range replacedVersions(e) {
				if _, ok := entries[name]; !ok {
					return fmt.Errorf("channel %s: %s replaces %s, which is not in the channel: clusters with that version are "+
						"never upgraded", c.Name, e.Name, name)
				}
				replaced[name] = true
			}
		}
		var ends []string
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			if !replaced[name] {
				ends = append(ends, name)
			}
		}
		if len(ends) > 1 {
			return fmt.Errorf("channel %s: nothing replaces any of %s: one of them has to replace the others",
				c.Name, strings.Join(ends, ", "))
		}
	}
	return nil
}

// replacedVersions returns the names of the versions that an entry of a channel replaces or skips.
func replacedVersions(e declcfg.ChannelEntry) []string {
	if e.Replaces == "" {
		return e.Skips
	}
	return append([]string{e.Replaces}, e.Skips...)
}

// Versions returns the versions of the bundles in a catalog, the oldest first.
func Versions(catalog *declcfg.DeclarativeConfig) []string {
	var all []semver.Version
	for _, b := range catalog.Bundles {
		_, text, _ := strings.Cut(b.Name, ".v")
		if v, err := semver.Parse(text); err == nil {
			all = append(all, v)
		}
	}
	semver.Sort(all)
	var texts []string
	for _, v := range all {
		texts = append(texts, v.String())
	}
	return texts
}

// CheckComplete rejects a catalog that lacks a version of the folder with released bundles. Installations of that
// version would never be upgraded.
func CheckComplete(catalog *declcfg.DeclarativeConfig, released string) error {
	there, err := os.ReadDir(released)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking which versions were released: %w", err)
	}
	versions := Versions(catalog)
	for _, dir := range there {
		if version := strings.TrimPrefix(dir.Name(), "v"); !slices.Contains(versions, version) {
			return fmt.Errorf("%s was released, and the template does not have it: clusters with that version are never "+
				"upgraded; add its bundle to a channel", filepath.Join(released, dir.Name()))
		}
	}
	return nil
}
