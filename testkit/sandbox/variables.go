package sandbox

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sources are where the variables of a container get their values from.
type sources struct {
	// field returns a field of the pod, and false for an unknown one.
	field func(path string) (string, bool)
	// data returns the content of a ConfigMap or Secret of the pod's namespace, or errUnknown.
	data func(object client.Object) (map[string]string, error)
}

// apiData returns a function that reads ConfigMaps and Secrets from an API server.
func apiData(ctx context.Context, reader client.Reader, namespace string) func(client.Object) (map[string]string, error) {
	return func(object client.Object) (map[string]string, error) {
		if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: object.GetName()}, object); err != nil {
			return nil, fmt.Errorf("reading the variables of a container: %w", err)
		}
		switch o := object.(type) {
		case *corev1.ConfigMap:
			return o.Data, nil
		case *corev1.Secret:
			data := map[string]string{}
			for key, value := range o.Data {
				data[key] = string(value)
			}
			return data, nil
		default:
			return nil, fmt.Errorf("reading the variables of a container: %T has none", object)
		}
	}
}

// errUnknown is returned for a variable whose value only a kubelet knows.
var errUnknown = errors.New("its value is known to a kubelet only")

// variables are those of a container, as a kubelet sets them.
type variables struct {
	values map[string]string // by name
	// unknown are the variables whose values only a kubelet knows.
	unknown []string
}

// variables returns the variables of a container. A missing ConfigMap, Secret or key is an error unless it is optional.
func (s sources) variables(c *corev1.Container) (variables, error) {
	found := variables{values: map[string]string{}}
	for _, from := range c.EnvFrom {
		data, err := s.all(from)
		if errors.Is(err, errUnknown) {
			found.unknown = append(found.unknown, "the variables of envFrom")
			continue
		}
		if err != nil {
			return found, err
		}
		for key, value := range data {
			if name := from.Prefix + key; len(validation.IsEnvVarName(name)) == 0 {
				found.values[name] = value
			}
		}
	}
	declared := map[string]string{} // only these are expanded in values
	for _, v := range c.Env {
		value, ok, err := s.value(v)
		switch {
		case errors.Is(err, errUnknown):
			found.unknown = append(found.unknown, v.Name)
			continue
		case err != nil:
			return found, fmt.Errorf("variable %s: %w", v.Name, err)
		case !ok:
			continue
		}
		if v.ValueFrom == nil {
			value = expand(value, declared)
		}
		declared[v.Name] = value
		found.values[v.Name] = value
	}
	return found, nil
}

// value returns the value of a variable, and false if its optional source does not exist.
func (s sources) value(v corev1.EnvVar) (value string, ok bool, err error) {
	switch from := v.ValueFrom; {
	case from == nil:
		return v.Value, true, nil
	case from.FieldRef != nil:
		if value, ok := s.field(from.FieldRef.FieldPath); ok {
			return value, true, nil
		}
		return "", false, errUnknown
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		return s.key(configMap(ref.LocalObjectReference), ref.Key, isTrue(ref.Optional))
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		return s.key(secret(ref.LocalObjectReference), ref.Key, isTrue(ref.Optional))
	default:
		return "", false, errUnknown
	}
}

func (s sources) key(object client.Object, key string, optional bool) (value string, ok bool, err error) {
	data, err := s.read(object, optional)
	if err != nil {
		return "", false, err
	}
	if value, ok = data[key]; !ok && !optional {
		return "", false, fmt.Errorf("its ConfigMap or Secret %s has no key %s", object.GetName(), key)
	}
	return value, ok, nil
}

// all returns the content of an object that a container gets all variables from.
func (s sources) all(from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		return s.read(configMap(from.ConfigMapRef.LocalObjectReference), isTrue(from.ConfigMapRef.Optional))
	case from.SecretRef != nil:
		return s.read(secret(from.SecretRef.LocalObjectReference), isTrue(from.SecretRef.Optional))
	default:
		return nil, errUnknown
	}
}

// read returns the content of a ConfigMap or Secret, which is empty for an optional one that does not exist.
func (s sources) read(object client.Object, optional bool) (map[string]string, error) {
	data, err := s.data(object)
	if optional && apierrors.IsNotFound(err) {
		return map[string]string{}, nil
	}
	return data, err
}

func configMap(ref corev1.LocalObjectReference) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}}
}

func secret(ref corev1.LocalObjectReference) client.Object {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}}
}

func isTrue(b *bool) bool { return b != nil && *b }
