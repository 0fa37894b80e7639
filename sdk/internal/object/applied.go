package object

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MetadataEntries are labels and annotations.
type MetadataEntries struct {
	Labels      map[string]string
	Annotations map[string]string
}

// AppliedMetadata returns the labels and annotations of an object that the manager owns through server-side apply, with
// their present values.
func AppliedMetadata(o metav1.Object, manager string) MetadataEntries {
	var all MetadataEntries
	for _, entry := range o.GetManagedFields() {
		own := entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
		if !own || entry.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels      map[string]any `json:"f:labels"`
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue // the API server writes it
		}
		all.Labels = owned(o.GetLabels(), fields.Metadata.Labels)
		all.Annotations = owned(o.GetAnnotations(), fields.Metadata.Annotations)
	}
	return all
}

// owned returns the entries whose field is in a set of FieldsV1.
func owned(entries map[string]string, fields map[string]any) map[string]string {
	all := map[string]string{}
	for key, value := range entries {
		if _, ok := fields["f:"+key]; ok {
			all[key] = value
		}
	}
	return all
}
