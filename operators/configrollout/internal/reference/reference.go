// Package reference collects the ConfigMaps and Secrets, and the keys of them, that the pods of a template use. It reads
// nothing but the template.
package reference

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kind is the kind of a referenced object.
type Kind string

// The kinds.
const (
	ConfigMap Kind = "ConfigMap"
	Secret    Kind = "Secret"
)

// Ref is the reference of a template to one object.
type Ref struct {
	Kind Kind
	Name string
	// All means that every key is used.
	All bool
	// Keys are the keys used by name; the value reports whether pods need the key to start.
	Keys map[string]bool
	// Required means that pods need the object to start.
	Required bool
}

// The maximal numbers of objects that one workload uses, and of keys that it uses by name. They limit the requests and the
// annotations for one workload.
const (
	MaxObjects = 128
	MaxKeys    = 1024
)

// Excess describes the references if there are too many of them; otherwise it returns "".
func Excess(refs []Ref) string {
	keys := 0
	for _, ref := range refs {
		keys += len(ref.Keys)
	}
	if len(refs) > MaxObjects || keys > MaxKeys {
		return fmt.Sprintf("it uses %d ConfigMaps and Secrets, and %d of their keys by name; the limits are %d and %d",
			len(refs), keys, MaxObjects, MaxKeys)
	}
	return ""
}

// Options are the settings of a workload beside its template.
type Options struct {
	// ConfigMaps and Secrets are used as a whole, and required.
	ConfigMaps, Secrets []string
	// Ignore lists ConfigMaps and Secrets to ignore.
	Ignore []string
	// HotReload lists objects that the workload reloads without a restart. This applies where the kubelet updates running
	// pods: to volumes, unless they are mounted with a subPath.
	HotReload []string
	// NoSecrets leaves out all Secrets.
	NoSecrets bool
}

// Collect returns the references of a template, sorted by kind and name.
func Collect(template *corev1.PodTemplateSpec, o Options) []Ref {
	c := &collector{Options: o, refs: map[id]*Ref{}}
	for i := range template.Spec.InitContainers {
		c.environment(&template.Spec.InitContainers[i])
	}
	for i := range template.Spec.Containers {
		c.environment(&template.Spec.Containers[i])
	}
	for i := range template.Spec.Volumes {
		c.volume(&template.Spec.Volumes[i], mountsOf(&template.Spec, template.Spec.Volumes[i].Name))
	}
	for _, name := range o.ConfigMaps {
		c.use(ConfigMap, name, true).All = true
	}
	for _, name := range o.Secrets {
		c.use(Secret, name, true).All = true
	}
	found := make([]Ref, 0, len(c.refs))
	for key, ref := range c.refs {
		if !slices.Contains(o.Ignore, key.name) && (!o.NoSecrets || key.kind != Secret) {
			found = append(found, *ref)
		}
	}
	slices.SortFunc(found, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// KeyNames returns the names of the keys, sorted.
func (r Ref) KeyNames() []string { return slices.Sorted(maps.Keys(r.Keys)) }

// String returns "Kind/name".
func (r Ref) String() string { return string(r.Kind) + "/" + r.Name }

type id struct {
	kind Kind
	name string
}

type collector struct {
	Options

	refs map[id]*Ref
}

func (c *collector) use(kind Kind, name string, required bool) *Ref {
	key := id{kind, name}
	if name == "" { // the API server would reject such a template
		return &Ref{Keys: map[string]bool{}}
	}
	if c.refs[key] == nil {
		c.refs[key] = &Ref{Kind: kind, Name: name, Keys: map[string]bool{}}
	}
	ref := c.refs[key]
	ref.Required = ref.Required || required
	return ref
}

// key adds a key used by name.
func (r Ref) key(name string, required bool) { r.Keys[name] = r.Keys[name] || required }

func (c *collector) environment(container *corev1.Container) {
	for _, from := range container.EnvFrom {
		if r := from.ConfigMapRef; r != nil {
			c.use(ConfigMap, r.Name, !isTrue(r.Optional)).All = true
		}
		if r := from.SecretRef; r != nil {
			c.use(Secret, r.Name, !isTrue(r.Optional)).All = true
		}
	}
	for _, env := range container.Env {
		if env.ValueFrom == nil {
			continue
		}
		if r := env.ValueFrom.ConfigMapKeyRef; r != nil {
			c.use(ConfigMap, r.Name, !isTrue(r.Optional)).key(r.Key, !isTrue(r.Optional))
		}
		if r := env.ValueFrom.SecretKeyRef; r != nil {
			c.use(Secret, r.Name, !isTrue(r.Optional)).key(r.Key, !isTrue(r.Optional))
		}
	}
}

func (c *collector) volume(v *corev1.Volume, m mounts) {
	switch {
	case v.ConfigMap != nil:
		c.files(ConfigMap, v.ConfigMap.Name, v.ConfigMap.Items, isTrue(v.ConfigMap.Optional), m)
	case v.Secret != nil:
		c.files(Secret, v.Secret.SecretName, v.Secret.Items, isTrue(v.Secret.Optional), m)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if s := source.ConfigMap; s != nil {
				c.files(ConfigMap, s.Name, s.Items, isTrue(s.Optional), m)
			}
			if s := source.Secret; s != nil {
				c.files(Secret, s.Name, s.Items, isTrue(s.Optional), m)
			}
		}
	}
}

// files adds the files of a volume that the containers can see.
func (c *collector) files(kind Kind, name string, items []corev1.KeyToPath, optional bool, m mounts) {
	if slices.Contains(c.HotReload, name) {
		if m.onlyWhole() {
			return
		}
		m.whole = false // the kubelet does not update files mounted with a subPath
	}
	ref := c.use(kind, name, !optional)
	switch {
	case len(items) > 0:
		for _, item := range items {
			if m.isVisible(item.Path) {
				ref.key(item.Key, !optional)
			}
		}
	case m.whole:
		ref.All = true
	default:
		for _, path := range m.paths {
			ref.key(path, false)
		}
	}
}

// mounts describes the visible part of a volume.
type mounts struct {
	whole bool     // everything is visible
	paths []string // these files and folders are visible
}

func mountsOf(spec *corev1.PodSpec, volume string) mounts {
	var m mounts
	mounted := false
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, container := range containers {
			for _, mount := range container.VolumeMounts {
				if mount.Name != volume {
					continue
				}
				mounted = true
				path := strings.Trim(strings.TrimPrefix(mount.SubPath, "./"), "/")
				if path == "" || path == "." || mount.SubPathExpr != "" {
					m.whole = true
					continue
				}
				m.paths = append(m.paths, path)
			}
		}
	}
	m.whole = m.whole || !mounted // an injected container may mount it
	return m
}

func (m mounts) onlyWhole() bool { return len(m.paths) == 0 }

// isVisible reports whether a file of the volume is visible.
func (m mounts) isVisible(path string) bool {
	return m.whole || slices.ContainsFunc(m.paths, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

func isTrue(b *bool) bool { return b != nil && *b }
