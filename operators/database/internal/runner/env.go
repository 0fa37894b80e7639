//go:build linux

package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An environment is a list of variables. The last one of a name counts.
type environment []corev1.EnvVar

func (e environment) get(name string) (string, bool) {
	for _, v := range slices.Backward(e) {
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// list returns the environment in the format of os/exec.
func (e environment) list() []string {
	var list []string
	for i, v := range e {
		if !slices.ContainsFunc(e[i+1:], func(later corev1.EnvVar) bool { return later.Name == v.Name }) {
			list = append(list, v.Name+"="+v.Value)
		}
	}
	return list
}

// expand replaces $(NAME) by the value of a known variable, and $$ by $.
func (e environment) expand(text string) string {
	var out strings.Builder
	for text != "" {
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			break
		}
		text = rest
		if after, ok := strings.CutPrefix(rest, "$"); ok {
			out.WriteString("$")
			text = after
			continue
		}
		if after, ok := strings.CutPrefix(rest, "("); ok {
			name, after, closed := strings.Cut(after, ")")
			if value, set := e.get(name); closed && set {
				out.WriteString(value)
				text = after
				continue
			}
		}
		out.WriteString("$")
	}
	return out.String()
}

func (e environment) expandAll(texts []string) []string {
	all := make([]string, 0, len(texts))
	for _, text := range texts {
		all = append(all, e.expand(text))
	}
	return all
}

// environment returns the environment of a container's first process.
func (p *pod) environment(ctx context.Context, c *corev1.Container) (environment, error) {
	e := environment{{Name: "PATH", Value: Path()}, {Name: "HOSTNAME", Value: p.hostname()}}
	for _, v := range c.Env {
		value := e.expand(v.Value)
		if v.ValueFrom != nil {
			found, ok, err := p.valueFrom(ctx, v.ValueFrom)
			if err != nil {
				return nil, fmt.Errorf("variable %s: %w", v.Name, err)
			}
			if !ok {
				continue
			}
			value = found
		}
		e = append(e, corev1.EnvVar{Name: v.Name, Value: value})
	}
	return e, nil
}

// valueFrom returns the value of a source and whether it exists. An optional one may be missing.
func (p *pod) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (string, bool, error) {
	switch {
	case from.FieldRef != nil:
		value, err := p.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		values, err := p.configMap(ctx, ref.Name, ref.Optional)
		return lookup(values, err, ref.Key, ref.Optional)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		values, err := p.secret(ctx, ref.Name, ref.Optional)
		return lookup(values, err, ref.Key, ref.Optional)
	}
	return "", false, fmt.Errorf("this source is not supported: %v", from)
}

func lookup(values map[string]string, err error, key string, optional *bool) (string, bool, error) {
	value, ok := values[key]
	if err == nil && !ok && (optional == nil || !*optional) {
		err = fmt.Errorf("couldn't find key %s", key)
	}
	return value, ok, err
}

// field returns a field of the downward API.
func (p *pod) field(path string) (string, error) {
	o := p.object
	if key, ok := strings.CutPrefix(path, "metadata.labels['"); ok {
		return o.Labels[strings.TrimSuffix(key, "']")], nil
	}
	if key, ok := strings.CutPrefix(path, "metadata.annotations['"); ok {
		return o.Annotations[strings.TrimSuffix(key, "']")], nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fields := map[string]string{
		"metadata.name": o.Name, "metadata.namespace": o.Namespace, "metadata.uid": string(o.UID),
		"spec.nodeName": o.Spec.NodeName, "spec.serviceAccountName": o.Spec.ServiceAccountName,
		"status.podIP": p.status.PodIP, "status.podIPs": p.status.PodIP, "status.hostIP": gateway, "status.hostIPs": gateway,
	}
	value, ok := fields[path]
	if !ok {
		return "", fmt.Errorf("field %s is not supported", path)
	}
	return value, nil
}

func (p *pod) configMap(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	values := map[string]string{}
	object, err := p.r.client.CoreV1().ConfigMaps(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return values, ignoreMissing(err, optional)
	}
	maps.Copy(values, object.Data)
	for key, value := range object.BinaryData {
		values[key] = string(value)
	}
	return values, nil
}

func (p *pod) secret(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	values := map[string]string{}
	object, err := p.r.client.CoreV1().Secrets(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return values, ignoreMissing(err, optional)
	}
	for key, value := range object.Data {
		values[key] = string(value)
	}
	return values, nil
}

// ignoreMissing returns nil for a NotFound error of an optional object.
func ignoreMissing(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}
