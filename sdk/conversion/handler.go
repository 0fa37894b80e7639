package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxBody is the limit of a request in bytes. The API server sends all objects of a list in one request.
const maxBody = 256 << 20

// Handler returns a handler of the conversion webhook, which serves ConversionReviews of version v1. Its error names every
// mistake in the declarations.
//
// A request whose objects cannot all be converted gets a failure that names the first such object, its field and the reason.
// The API server shows the message to the client.
func Handler(kinds ...*Kind) (http.Handler, error) {
	h := handler{}
	var errs []error
	for i, k := range kinds {
		if k == nil {
			errs = append(errs, fmt.Errorf("conversion %d is nil", i))
			continue
		}
		errs = append(errs, k.Validate())
		if h[k.GroupKind] != nil {
			errs = append(errs, fmt.Errorf("conversion of %s is declared twice", k.GroupKind))
		}
		h[k.GroupKind] = k
	}
	if len(kinds) == 0 {
		errs = append(errs, errors.New("no conversion is declared"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return h, nil
}

type handler map[schema.GroupKind]*Kind

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST of a ConversionReview is served", http.StatusMethodNotAllowed)
		return
	}
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&review); err != nil {
		http.Error(w, "reading the ConversionReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview")
	if got := review.GroupVersionKind(); got != want || review.Request == nil {
		http.Error(w, fmt.Sprintf("the body is %s, not a request of %s: conversionReviewVersions of the CustomResourceDefinition "+
			"must be [v1]", got, want), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID}
	response.Result = metav1.Status{Status: metav1.StatusSuccess}
	objects, err := h.convert(review.Request)
	if err != nil {
		response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	response.ConvertedObjects = objects
	review.Request = nil
	review.Response = response
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(&review); err != nil {
		panic(http.ErrAbortHandler) // the client is gone, or gets half of a response, which it rejects
	}
}

func (h handler) convert(request *apiextensionsv1.ConversionRequest) ([]runtime.RawExtension, error) {
	gv, err := schema.ParseGroupVersion(request.DesiredAPIVersion)
	if err != nil {
		return nil, fmt.Errorf("desiredAPIVersion: %w", err)
	}
	objects := make([]runtime.RawExtension, len(request.Objects))
	for i, raw := range request.Objects {
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON(raw.Raw); err != nil {
			return nil, fmt.Errorf("reading object %d: %w", i, err)
		}
		if objects[i].Raw, err = h.convertObject(&u, gv); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func (h handler) convertObject(u *unstructured.Unstructured, gv schema.GroupVersion) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("converting %s %s/%s to %s: a function panicked: %v", u.GetKind(), u.GetNamespace(), u.GetName(), gv, r)
		}
	}()
	k := h[u.GroupVersionKind().GroupKind()]
	if k == nil {
		return nil, fmt.Errorf("converting %s %s: this webhook does not convert its kind", u.GroupVersionKind(), u.GetName())
	}
	if gv.Group != k.GroupKind.Group {
		return nil, fmt.Errorf("converting %s %s to %s: the group cannot change", u.GetKind(), u.GetName(), gv)
	}
	converted, err := k.Convert(u, gv.Version)
	if err != nil {
		return nil, err
	}
	return converted.MarshalJSON()
}
