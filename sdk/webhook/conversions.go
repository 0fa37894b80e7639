package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxReview is the largest ConversionReview in bytes. The API server sends all objects of a list in one.
const maxReview = 256 << 20

// conversions are the conversion handlers of the operators of a program. It is not changed after the server has started.
type conversions map[schema.GroupKind]http.Handler

// ServeHTTP passes a ConversionReview to the handler of its objects, which are all of one kind.
func (c conversions) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxReview))
	if err != nil {
		http.Error(w, "reading the ConversionReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	kind, err := kindOf(body)
	if err != nil {
		http.Error(w, "reading the ConversionReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	handler := c[kind]
	if handler == nil {
		http.Error(w, fmt.Sprintf("no operator of this program converts %s", kind), http.StatusNotFound)
		return
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	handler.ServeHTTP(w, req)
}

// kindOf returns the kind of the objects of a ConversionReview.
func kindOf(review []byte) (schema.GroupKind, error) {
	var decoded struct {
		Request struct {
			Objects []metav1.TypeMeta `json:"objects"`
		} `json:"request"`
	}
	if err := json.Unmarshal(review, &decoded); err != nil {
		return schema.GroupKind{}, err
	}
	if len(decoded.Request.Objects) == 0 {
		return schema.GroupKind{}, errors.New("it has no object")
	}
	return decoded.Request.Objects[0].GroupVersionKind().GroupKind(), nil
}
