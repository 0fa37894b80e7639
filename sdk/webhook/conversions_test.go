package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Each operator converts its kind. The handler gets the whole review.
func TestConversions(t *testing.T) {
	t.Parallel()
	named := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, name+" "+string(body))
		})
	}
	c := conversions{{Group: "a.example.com", Kind: "Team"}: named("team"), {Group: "a.example.com", Kind: "Box"}: named("box")}
	review := func(version, kind string) string {
		return `{"request":{"objects":[{"apiVersion":"` + version + `","kind":"` + kind + `"}]}}`
	}
	for name, test := range map[string]struct {
		body string
		code int
		want string
	}{
		"a team":        {review("a.example.com/v1", "Team"), 200, "team " + review("a.example.com/v1", "Team")},
		"a box":         {review("a.example.com/v2", "Box"), 200, "box " + review("a.example.com/v2", "Box")},
		"another kind":  {review("a.example.com/v2", "Bag"), 404, "no operator of this program converts Bag.a.example.com\n"},
		"no object":     {`{"request":{}}`, 400, "reading the ConversionReview: it has no object\n"},
		"not a review":  {`[`, 400, "reading the ConversionReview: unexpected end of JSON input\n"},
		"another group": {review("v1", "Team"), 404, "no operator of this program converts Team\n"},
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, ConversionPath, strings.NewReader(test.body))
		c.ServeHTTP(w, req)
		if got := w.Body.String(); w.Code != test.code || got != test.want {
			t.Errorf("%s: %d %q, want %d %q", name, w.Code, got, test.code, test.want)
		}
	}
}
