package conversion_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

// serve sends a body to the handler of these kinds.
func serve(t *testing.T, method, body string, kinds ...*conversion.Kind) *httptest.ResponseRecorder {
	t.Helper()
	h, err := conversion.Handler(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/convert", strings.NewReader(body)))
	return w
}

// review sends objects in a ConversionReview and returns the response.
func review(t *testing.T, desired string, kind *conversion.Kind, objects ...string) *apiextensionsv1.ConversionResponse {
	t.Helper()
	request := &apiextensionsv1.ConversionReview{
		Request: &apiextensionsv1.ConversionRequest{UID: "u", DesiredAPIVersion: desired},
	}
	request.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview"))
	for _, o := range objects {
		request.Request.Objects = append(request.Request.Objects, runtime.RawExtension{Raw: []byte(o)})
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, http.MethodPost, string(body), kind)
	var answer apiextensionsv1.ConversionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if answer.Response == nil || answer.Response.UID != "u" || answer.Kind != "ConversionReview" {
		t.Fatalf("the response is %s", w.Body)
	}
	return answer.Response
}

const (
	header = `{"apiVersion":"example.com/v1alpha1","kind":"Team","metadata":`
	ann    = header + `{"name":"ann","namespace":"shop"},"spec":{"size":"1Gi"}}`
	bob    = header + `{"name":"bob","namespace":"shop"},"spec":{"size":"big"}}`
)

func TestHandler(t *testing.T) {
	r := review(t, "example.com/v1beta1", team(), ann, strings.Replace(ann, "ann", "cy", 1))
	if r.Result.Status != metav1.StatusSuccess || len(r.ConvertedObjects) != 2 {
		t.Fatalf("the response is %v", r)
	}
	want := `{"apiVersion":"example.com/v1beta1","kind":"Team","metadata":{"name":"cy","namespace":"shop"},` +
		`"spec":{"plan":"free","quota":3,"sizeGi":1}}`
	if d := cmp.Diff(want, strings.TrimSpace(string(r.ConvertedObjects[1].Raw))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestHandlerFailures(t *testing.T) {
	panicking := team()
	panicking.Versions[1].Lenses = []conversion.Lens{
		conversion.Functions(func(*teamAlpha2, *teamBeta1) error { panic("at the disco") }, hubToAlpha2),
	}
	for name, c := range map[string]struct {
		kind                  *conversion.Kind
		object, desired, want string
	}{
		"a function fails": {
			team(), bob, "example.com/v1beta1", `converting v1alpha1 Team shop/bob to v1beta1: spec.size: "big" is no size`,
		},
		"a panic": {
			panicking, strings.Replace(ann, "v1alpha1", "v1alpha2", 1), "example.com/v1beta1",
			"converting Team shop/ann to example.com/v1beta1: a function panicked: at the disco",
		},
		"another kind": {
			team(), strings.Replace(ann, "Team", "Club", 1), "example.com/v1beta1", "this webhook does not convert its kind",
		},
		"another group": {team(), ann, "example.org/v1beta1", "the group cannot change"},
		"no object":     {team(), `{"spec":{}}`, "example.com/v1beta1", "reading object 0"},
		"no version":    {team(), ann, "a/b/c", "desiredAPIVersion"},
	} {
		t.Run(name, func(t *testing.T) {
			r := review(t, c.desired, c.kind, c.object)
			if r.Result.Status != metav1.StatusFailure || !strings.Contains(r.Result.Message, c.want) || r.ConvertedObjects != nil {
				t.Errorf("the response is %v, without %s", r, c.want)
			}
		})
	}
}

func TestHandlerRejectsOtherRequests(t *testing.T) {
	for name, c := range map[string]struct {
		method, body string
		code         int
		want         string
	}{
		"GET":     {http.MethodGet, "", http.StatusMethodNotAllowed, "only POST"},
		"no JSON": {http.MethodPost, "{", http.StatusBadRequest, "reading the ConversionReview"},
		"v1beta1": {
			http.MethodPost, `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview","request":{}}`,
			http.StatusBadRequest, "must be [v1]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, c.method, c.body, team())
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("the response is %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestInvalidHandlers(t *testing.T) {
	for want, kinds := range map[string][]*conversion.Kind{
		"conversion 0 is nil":                              {nil},
		"no conversion is declared":                        {},
		"conversion of Team.example.com is declared twice": {team(), team()},
		"field Hub is missing":                             {{}},
	} {
		if _, err := conversion.Handler(kinds...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, not %s", err, want)
		}
	}
}
