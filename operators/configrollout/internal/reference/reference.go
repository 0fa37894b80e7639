// Package reference finds which keys of which ConfigMaps and Secrets the pods of a template use. It reads nothing but the
// template.
package reference

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Kind is that of what is referred to.
type Kind string

// The kinds.
const (
	ConfigMap Kind = "ConfigMap"
	Secret    Kind = "Secret"
)

// Ref says what a template uses of one object.
type Ref struct {
	Kind Kind
	Name string
	// All means that every key is used, whichever there are.
	All bool
	// Keys are the keys that are used by name, and whether the pods cannot start without.
	Keys map[string]bool
	// Required means that the pods cannot start without the object.
	Required bool
}

// Options are what a workload says of itself, beside its template.
type Options struct {
	// ConfigMaps and Secrets are used as a whole, and required.
	ConfigMaps, Secrets []string
	// Ignore are names of ConfigMaps and Secrets that count as not referred to.
	Ignore []string
	// HotReload are names that the workload reads anew itself where Kubernetes brings changes into a running pod: in a
	// volume, unless it is mounted with a subPath.
	HotReload []string
	// NoSecrets leaves all Secrets out.
	NoSecrets bool
}

// Collect returns the references of a template by kind and name.
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

// KeyNames returns the names of the keys in order.
func (r Ref) KeyNames() []string { return slices.Sorted(maps.Keys(r.Keys)) }

// String names the object as "Kind/name".
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
	if name == "" { // a template that the API server would refuse
		return &Ref{Keys: map[string]bool{}}
	}
	if c.refs[key] == nil {
		c.refs[key] = &Ref{Kind: kind, Name: name, Keys: map[string]bool{}}
	}
	ref := c.refs[key]
	ref.Required = ref.Required || required
	return ref
}

// key adds a key that is used by name.
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

// files adds what a volume makes of an object, as far as the containers see it.
func (c *collector) files(kind Kind, name string, items []corev1.KeyToPath, optional bool, m mounts) {
	if slices.Contains(c.HotReload, name) {
		if m.onlyWhole() {
			return
		}
		m.whole = false // the files that are mounted one by one are not brought up to date in a running pod
	}
	ref := c.use(kind, name, !optional)
	switch {
	case len(items) > 0:
		for _, item := range items {
			if m.see(item.Path) {
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

// mounts says what containers see of a volume.
type mounts struct {
	whole bool     // all of it
	paths []string // these files and folders
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
	m.whole = m.whole || !mounted // who injects containers may mount it
	return m
}

func (m mounts) onlyWhole() bool { return len(m.paths) == 0 }

// see reports whether a file of the volume can be seen.
func (m mounts) see(path string) bool {
	return m.whole || slices.ContainsFunc(m.paths, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

func isTrue(b *bool) bool { return b != nil && *b }
