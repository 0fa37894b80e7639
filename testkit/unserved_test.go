package testkit

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// An operator with webhooks that the test does not serve ends with an error that names the missing field.
func TestUnservedWebhooks(t *testing.T) {
	t.Parallel()
	handler := http.NotFoundHandler()
	for name, tc := range map[string]struct {
		env  Env
		path string
		want string
	}{
		"admission":  {Env{Conversion: handler}, "/validate-a-v1-b", "testkit.Env has no Webhooks: set it to"},
		"conversion": {Env{}, "/convert", "testkit.Env has no Conversion: set it to"},
		"converted":  {Env{Conversion: handler}, "/convert", ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		server := &unservedWebhooks{webhookServer: &webhookServer{mux: http.NewServeMux()}, env: &tc.env}
		server.Register(tc.path, handler)
		err := server.Start(ctx)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
