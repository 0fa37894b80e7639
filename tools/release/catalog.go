package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// olmFlags compile Go programs that depend on OLM without C libraries.
var olmFlags = []string{
	"CGO_ENABLED=0",
	"GOFLAGS=-tags=json1,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper",
}

// makeCatalog renders the catalog with the published names of the bundles, and packs it into an archive and an image. A
// version without a tag was never published, so it is left out of the catalog even if the templates contain it.
func (r *rehearsal) makeCatalog(ctx context.Context) error {
	args := []string{"-o", r.path("catalog"), "-released", r.temp("released"), "-current", r.path("bundles")}
	before := len(args)
	for _, operator := range r.bundled() {
		name := path.Base(operator)
		from := filepath.Join(r.root, "olm", "templates", name+".yaml")
		data, err := os.ReadFile(from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			data, err = publishedTemplate(data, r.prefix, r.version, released(r.tags))
		}
		to := r.temp(filepath.Join("templates", name+".yaml"))
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o644))
		}
		if err == nil {
			err = r.copyReleased(name)
		}
		if err != nil {
			return fmt.Errorf("preparing %s: %w", from, err)
		}
		args = append(args, to)
	}
	if len(args) == before {
		return nil
	}
	if _, err := r.program(ctx, "olm", "./cmd/catalog", olmFlags, args...); err != nil {
		return err
	}
	if err := oci.Archive(r.path("catalog"), r.path("catalog.tar")); err != nil {
		return err
	}
	recipe := oci.Recipe{
		Folders: map[string]string{".": "/configs"},
		Labels:  map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"},
	}
	if err := r.dataImage(r.path("catalog"), recipe, "catalog", r.catalogTags()); err != nil {
		return fmt.Errorf("making the image of the catalog: %w", err)
	}
	return nil
}

// catalogTags returns the tags of the catalog's image. Installations use the tag latest, if there is one. It moves with each
// release.
func (r *rehearsal) catalogTags() []string { return append([]string{"v" + r.version}, r.latest()...) }

// publishedTemplate changes the template of a catalog: bundles get their names in the registry, and versions that are
// neither published nor part of this release are removed.
func publishedTemplate(data []byte, prefix, version string, before map[string]bool) ([]byte, error) {
	var template map[string]any
	if err := yaml.Unmarshal(data, &template); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	found := false
	for _, channel := range []string{"candidate", "fast", "stable"} {
		c, _ := template[channel].(map[string]any)
		bundles, _ := c["bundles"].([]any)
		var kept []any
		for _, b := range bundles {
			bundle, _ := b.(map[string]any)
			ref, _ := bundle["image"].(string)
			name, v, ok := strings.Cut(path.Base(ref), ":v")
			if !ok {
				return nil, fmt.Errorf("it has the bundle %q, not OPERATOR-bundle:vVERSION", ref)
			}
			if found = found || v == version; v == version || before[v] {
				kept = append(kept, map[string]any{"image": prefix + name + ":v" + v})
			}
		}
		if c != nil {
			c["bundles"] = kept
		}
	}
	if !found {
		return nil, fmt.Errorf("it has no bundle of version %s: add it below its channel", version)
	}
	out, err := yaml.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("writing it: %w", err)
	}
	return out, nil
}

// imageWithoutRegistry matches image names without a registry, as in the committed bundles.
var imageWithoutRegistry = regexp.MustCompile(`(?m)(^|[^\w./-])homeostat/([\w.-]+@sha256:)`)

// copyReleased copies the bundles of published versions, with the names of their images in the registry.
func (r *rehearsal) copyReleased(operator string) error {
	for version := range released(r.tags) {
		from := filepath.Join(r.root, "olm", "released", operator, "v"+version)
		if _, err := os.Stat(from); err != nil || version == r.version {
			continue
		}
		names, err := filesBelow(from)
		if err != nil {
			return err
		}
		for _, name := range names {
			to := r.temp(filepath.Join("released", operator, "v"+version, name))
			data, err := os.ReadFile(filepath.Join(from, name))
			data = imageWithoutRegistry.ReplaceAll(data, []byte("${1}"+r.prefix+"${2}"))
			err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o644))
			if err != nil {
				return fmt.Errorf("copying the bundles of former versions: %w", err)
			}
		}
	}
	if err := os.MkdirAll(r.temp(filepath.Join("released", operator)), 0o755); err != nil {
		return fmt.Errorf("copying the bundles of former versions: %w", err)
	}
	return nil
}
