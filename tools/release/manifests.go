package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// makeManifests writes the manifests that install each operator with kubectl apply, and those that add the catalog to OLM
// and install operators from it.
func (r *rehearsal) makeManifests(ctx context.Context) error {
	tools := command{dir: filepath.Join(r.tools, "tools"), env: []string{"GOWORK=off"}}
	kustomize, err := tools.run(ctx, "go", "tool", "-n", "kustomize")
	if err != nil {
		return err
	}
	for _, operator := range r.operators {
		text, err := command{dir: r.root}.run(ctx, kustomize, "build", filepath.Join(operator, "config", "default"))
		if err == nil {
			text, err = r.withImage(text, path.Base(operator))
		}
		if err == nil {
			err = r.writeManifest("install-"+path.Base(operator)+".yaml", []byte(text+"\n"))
		}
		if err != nil {
			return fmt.Errorf("%s/config/default: %w", operator, err)
		}
	}
	for _, olm := range []string{"v0", "v1"} {
		for _, name := range append([]string{"catalog"}, r.operators...) {
			if err := r.makeForOLM(olm, path.Base(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeForOLM writes the manifest that adds the catalog to a version of OLM, or that installs an operator from it, if the
// repository has that manifest.
func (r *rehearsal) makeForOLM(olm, name string) error {
	from := path.Join("olm", "install", olm, name+".yaml")
	data, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(from)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && name == "catalog" {
		tags := r.catalogTags()
		data, err = withCatalog(data, r.prefix+"catalog:"+tags[len(tags)-1])
	}
	if err == nil {
		err = r.writeManifest(name+"-for-olm-"+olm+".yaml", data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

func (r *rehearsal) writeManifest(name string, data []byte) error {
	file := r.path("install", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644)); err != nil {
		return fmt.Errorf("writing a manifest: %w", err)
	}
	return nil
}

// withImage replaces the development image with the image of a release, which has the version for readers and the digest for
// the cluster.
func (r *rehearsal) withImage(text, operator string) (string, error) {
	before := "image: registry.invalid/homeostat/" + operator + ":dev\n"
	if strings.Count(text, before) != 1 {
		return "", fmt.Errorf("it has no single line %q", strings.TrimSpace(before))
	}
	for _, i := range r.plan.Images {
		if i.Name == operator {
			after := fmt.Sprintf("image: %s%s:%s@%s\n", r.prefix, operator, r.version, i.Digest)
			return strings.Replace(text, before, after, 1), nil
		}
	}
	return "", fmt.Errorf("there is no image of %s", operator)
}

// withCatalog sets the published catalog image in the manifest that adds it to OLM. The image contains no opm, so OLM v0 is
// configured to use its own.
func withCatalog(data []byte, catalog string) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	spec, _ := object["spec"].(map[string]any)
	switch object["kind"] {
	case "CatalogSource":
		pod, _ := spec["grpcPodConfig"].(map[string]any)
		if pod == nil {
			pod = map[string]any{}
		}
		pod["extractContent"] = map[string]any{"catalogDir": "/configs"} // no cacheDir: the image has no cache
		spec["image"], spec["grpcPodConfig"] = catalog, pod
	case "ClusterCatalog":
		source, _ := spec["source"].(map[string]any)
		image, _ := source["image"].(map[string]any)
		if image == nil {
			return nil, errors.New("it has no spec.source.image")
		}
		image["ref"] = catalog
	default:
		return nil, fmt.Errorf("it is a %v, not a CatalogSource or a ClusterCatalog", object["kind"])
	}
	out, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing it: %w", err)
	}
	return out, nil
}
