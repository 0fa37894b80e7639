package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// An option is a kustomize component in a folder of config. In the chart it is a boolean value.
type option struct {
	Name string // of the folder and of the value
	Args []string
	// rules are the additional rules of roles, by the result of roleKey.
	rules map[string][]any
}

// addOptions finds the components, and their changes of config/default and config/namespaced.
func (c *config) addOptions(dir string, parts map[string][]*unstructured.Unstructured) error {
	names, err := components(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		o := option{Name: name, rules: map[string][]any{}}
		overlays := []string{overlayDefault}
		if c.Namespaced {
			overlays = append(overlays, overlayNamespaced)
		}
		for _, overlay := range overlays {
			with, err := buildWith(dir, overlay, name)
			if err != nil {
				return err
			}
			if err := o.add(parts[overlay], with); err != nil {
				return fmt.Errorf("config/%s changes config/%s: %w", name, overlay, err)
			}
		}
		c.Options = append(c.Options, o)
	}
	return nil
}

// components returns the folders of config that contain a kustomize component, sorted.
func components(dir string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "kustomization.yaml"))
	if err != nil {
		return nil, fmt.Errorf("looking for components: %w", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("looking for components: %w", err)
		}
		var kustomization struct{ Kind string }
		if err := yaml.Unmarshal(data, &kustomization); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if kustomization.Kind == "Component" {
			names = append(names, filepath.Base(filepath.Dir(file)))
		}
	}
	return names, nil
}

// buildWith builds an overlay with a component, in a copy of config in memory.
func buildWith(dir, overlay, component string) ([]*unstructured.Unstructured, error) {
	files := filesys.MakeFsInMemory()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return files.WriteFile(strings.TrimPrefix(name, dir), data)
	})
	if err == nil {
		both := fmt.Sprintf("resources: [../%s]\ncomponents: [../%s]\n", overlay, component)
		err = files.WriteFile("/both/kustomization.yaml", []byte(both))
	}
	if err != nil {
		return nil, fmt.Errorf("copying %s: %w", dir, err)
	}
	return kustomize(files, "/both")
}

// add records the additions of the option to an overlay: arguments, and rules of roles. Any other difference is an error,
// because the chart would lack it.
func (o *option) add(without, with []*unstructured.Unstructured) error {
	if len(without) != len(with) {
		return fmt.Errorf("it has %d objects then, and %d without: a chart can only have more arguments and rules",
			len(with), len(without))
	}
	for i, before := range without {
		after := with[i].DeepCopy()
		switch after.GetKind() {
		case "Deployment":
			had, _, _ := unstructured.NestedStringSlice(firstContainer(before), "args")
			has, _, _ := unstructured.NestedStringSlice(firstContainer(after), "args")
			o.Args = subtract(has, had)
			firstContainer(after)["args"] = firstContainer(before)["args"]
		case "Role", "ClusterRole":
			had, _, _ := unstructured.NestedSlice(before.Object, "rules")
			has, _, _ := unstructured.NestedSlice(after.Object, "rules")
			if more := subtract(has, had); len(more) > 0 {
				o.rules[roleKey(after)] = more
			}
			after.Object["rules"] = before.Object["rules"]
		}
		if !reflect.DeepEqual(before.Object, after.Object) {
			return fmt.Errorf("%s %s differs in more than arguments and rules, which a chart cannot have",
				after.GetKind(), after.GetName())
		}
	}
	return nil
}

// subtract returns the items that others do not have.
func subtract[T any](items, others []T) []T {
	return slices.DeleteFunc(slices.Clone(items), func(item T) bool {
		return slices.ContainsFunc(others, func(other T) bool { return reflect.DeepEqual(item, other) })
	})
}

// firstContainer returns the first container of a Deployment, not a copy.
func firstContainer(deployment *unstructured.Unstructured) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(deployment.Object, "spec", "template", "spec", "containers")
	containers, _ := value.([]any)
	container, _ := containers[0].(map[string]any) // addManager has checked it
	return container
}

func roleKey(role *unstructured.Unstructured) string {
	return role.GetKind() + "/" + role.GetNamespace() + "/" + role.GetName()
}
