package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/policy"
)

// ContentDigest represents the copied content of a source without its values.
type ContentDigest struct {
	// Content has the copied fields with a digest in place of each value, and no metadata.
	Content client.Object
	// Sum identifies the content.
	Sum string
	// Size is the size of the content in bytes.
	Size int64
	// NeverReason explains a source that no rule copies; "" for all others.
	NeverReason string
}

// Content returns the copied part of a ConfigMap or Secret: no metadata, and the entries selected by the rule. The entries
// are shared with the source.
func Content(r *policy.Rule, source client.Object) client.Object {
	return content(source, r.CopiesKey)
}

// FullContent returns an object without its metadata.
func FullContent(o client.Object) client.Object { return content(o, func(string) bool { return true }) }

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

// NewContentDigest returns the digest of a content.
func NewContentDigest(content client.Object) ContentDigest {
	x := ContentDigest{}
	switch o := content.(type) {
	case *corev1.ConfigMap:
		x.Content = &corev1.ConfigMap{
			Data: digests(o.Data, text), BinaryData: digests(o.BinaryData, binary), Immutable: o.Immutable,
		}
		x.Size = size(o.Data) + size(o.BinaryData)
	case *corev1.Secret:
		x.NeverReason = neverReason(o.Type)
		x.Size = size(o.Data)
		x.Content = &corev1.Secret{Type: o.Type, Data: digests(o.Data, binary), Immutable: o.Immutable}
	}
	raw, _ := json.Marshal(x.Content) //nolint:errchkjson // a struct of strings
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

func size[V string | []byte](all map[string]V) (n int64) {
	for key, value := range all {
		n += int64(len(key) + len(value))
	}
	return n
}

func text(value string) string { return string(binary([]byte(value))) }

func binary(value []byte) []byte {
	sum := sha256.Sum256(value)
	return []byte(hex.EncodeToString(sum[:]))
}

// neverReason explains the Secrets that are never copied. Only types that hold credentials for their reader are copied.
// Other types grant permissions, or are the configuration or the state of a controller, and have another meaning in another
// namespace.
func neverReason(secretType corev1.SecretType) string {
	switch secretType {
	case "", corev1.SecretTypeOpaque, corev1.SecretTypeTLS, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg,
		corev1.SecretTypeBasicAuth, corev1.SecretTypeSSHAuth:
		return ""
	default:
		return "Secrets of type " + string(secretType) + " are never copied: exclude it from the selector"
	}
}

// Placeholder returns the content with metadata. Everything else is shared with the argument.
func Placeholder(content client.Object, metadata metav1.ObjectMeta) client.Object {
	switch o := content.(type) {
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

// Metadata returns the metadata of the copy of a source in a namespace.
func Metadata(r *policy.Rule, source *metav1.PartialObjectMetadata, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: source.Name, Namespace: namespace, Labels: r.CopyLabels(source.Labels),
		Annotations: map[string]string{policy.SourceAnnotation: source.Namespace + "/" + source.Name},
	}
}
