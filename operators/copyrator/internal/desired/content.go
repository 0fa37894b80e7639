package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Excerpt stands for what is copied of a source, without holding it.
type Excerpt struct {
	// StandIn has the fields of what is copied, with a digest in the place of each value, and no metadata.
	StandIn client.Object
	// Sum identifies what is copied.
	Sum string
	// Never says why the source is not copied, whoever asks for it, "" if it is.
	Never string
}

// Content takes from a source, a ConfigMap or a Secret, what is copied: no metadata, and of the entries those that the rule
// asks for. The entries are shared with the source.
func (r *Rule) Content(source client.Object) client.Object {
	return content(source, func(key string) bool {
		return (len(r.keys.Include) == 0 || matches(r.keys.Include, key)) && !matches(r.keys.Exclude, key)
	})
}

// All takes everything but the metadata from an object.
func All(o client.Object) client.Object { return content(o, func(string) bool { return true }) }

func content(source client.Object, wanted func(string) bool) client.Object {
	switch o := source.(type) {
	case *corev1.ConfigMap:
		return &corev1.ConfigMap{Data: entries(o.Data, wanted), BinaryData: entries(o.BinaryData, wanted), Immutable: o.Immutable}
	case *corev1.Secret:
		return &corev1.Secret{Type: o.Type, Data: entries(o.Data, wanted), Immutable: o.Immutable}
	default:
		return nil
	}
}

func entries[V any](all map[string]V, wanted func(string) bool) map[string]V {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(key string, _ V) bool { return !wanted(key) })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// NewExcerpt makes what stands for a content.
func NewExcerpt(content client.Object) Excerpt {
	x := Excerpt{}
	switch o := content.(type) {
	case *corev1.ConfigMap:
		x.StandIn = &corev1.ConfigMap{
			Data: digests(o.Data, text), BinaryData: digests(o.BinaryData, binary), Immutable: o.Immutable,
		}
	case *corev1.Secret:
		x.Never = never(o.Type)
		x.StandIn = &corev1.Secret{Type: o.Type, Data: digests(o.Data, binary), Immutable: o.Immutable}
	}
	raw, _ := json.Marshal(x.StandIn) //nolint:errchkjson // it is made of strings.
	sum := sha256.Sum256(raw)
	x.Sum = hex.EncodeToString(sum[:])
	return x
}

func digests[V any](all map[string]V, digest func(V) V) map[string]V {
	sums := make(map[string]V, len(all))
	for key, value := range all {
		sums[key] = digest(value)
	}
	if len(sums) == 0 {
		return nil
	}
	return sums
}

func text(value string) string { return string(binary([]byte(value))) }

func binary(value []byte) []byte {
	sum := sha256.Sum256(value)
	return []byte(hex.EncodeToString(sum[:]))
}

// never says why Secrets of that type are not copied: each gives rights, or is the state of a tool, and means something else
// in another namespace.
func never(secretType corev1.SecretType) string {
	switch secretType {
	case corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken, "helm.sh/release.v1":
		return "Secrets of type " + string(secretType) + " are never copied: exclude it from the selector"
	default:
		return ""
	}
}

// Stand returns the stand-in with metadata, sharing everything else.
func Stand(standIn client.Object, metadata metav1.ObjectMeta) client.Object {
	switch o := standIn.(type) {
	case *corev1.ConfigMap:
		c := *o
		c.ObjectMeta = metadata
		return &c
	case *corev1.Secret:
		c := *o
		c.ObjectMeta = metadata
		return &c
	default:
		return nil
	}
}

// Metadata is that of the copy of a source in a namespace.
func (r *Rule) Metadata(source *metav1.PartialObjectMetadata, namespace string) metav1.ObjectMeta {
	labels := maps.Clone(source.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return key == managedByLabel || matches(r.labels.Strip, key) })
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, r.labels.Add)
	return metav1.ObjectMeta{
		Name: source.Name, Namespace: namespace, Labels: labels,
		Annotations: map[string]string{SourceAnnotation: source.Namespace + "/" + source.Name},
	}
}
