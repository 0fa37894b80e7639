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

// makeManifests writes what kubectl apply installs each operator with, and what makes the catalog known to OLM and installs
// operators from it.
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

// makeForOLM writes what makes the catalog known to a version of OLM, or installs an operator from it, if there is that.
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

// withImage puts the image of a release, by its version for people and by its digest for the cluster, in the place of the
// one of developers.
func (r *rehearsal) withImage(text, operator string) (string, error) {
	before := "image: homeostat/" + operator + ":dev\n"
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

// withCatalog puts the catalog where it will be into what makes it known to OLM. The image has no opm in it, so OLM v0 is
// told to take its own.
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
		pod["extractContent"] = map[string]any{"catalogDir": "/configs"} // no cacheDir: there is none to take from it
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
