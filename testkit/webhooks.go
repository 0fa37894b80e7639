package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// probeName is the name of a ConfigMap that is never stored. Its creation in a dry run shows which configurations the API
// server uses.
const probeName = "testkit-probe"

// conversionPath is the path of a conversion webhook.
const conversionPath = "/convert"

// webhooks are the admission webhooks of a test. They are the Service in front of its operators: a request goes to one of
// those that run. It is safe for concurrent use.
type webhooks struct {
	server *httptest.Server
	gate   webhookconfig.Gate

	mu        sync.Mutex
	servers   []*webhookServer
	next      int             // the server that gets the next request
	probed    map[string]bool // paths of probes that the API server has called
	installed []*unstructured.Unstructured
}

// startWebhooks serves the operators' webhooks and installs the configurations of Env.Webhooks for the test, once.
func (k *K) startWebhooks() error {
	if k.webhooks != nil || len(k.conn.webhooks) == 0 {
		return nil
	}
	if k.conn.existing {
		return errors.New("the API server in " + existingVariable + " cannot call the webhooks of a test: unset Env.Webhooks")
	}
	w := &webhooks{probed: map[string]bool{}}
	w.server = httptest.NewTLSServer(w)
	k.webhooks = w
	if run, ok := k.t.(interface {
		SetWebhooks(gate *webhookconfig.Gate)
	}); ok {
		run.SetWebhooks(&w.gate)
	}
	condition := webhookconfig.InRun(k.Namespace)
	if k.conn.private {
		condition = ""
	}
	for _, config := range k.conn.webhooks {
		local, err := webhookconfig.Localize(config, webhookconfig.Local{
			URL: w.server.URL, CA: certificateOf(w.server), Condition: condition,
			Suffix: k.Namespace[len(k.Namespace)-8:], Probe: probePath(config), ProbeName: probeName, Namespace: k.Namespace,
		})
		if err != nil {
			return fmt.Errorf("reading Env.Webhooks: %w", err)
		}
		if err := k.admin.Create(k.Context(), local); err != nil {
			return fmt.Errorf("installing %s %s: %w", local.GetKind(), local.GetName(), err)
		}
		w.installed = append(w.installed, local)
	}
	return k.awaitProbes(k.Context(), true)
}

func probePath(config *unstructured.Unstructured) string {
	return "/" + probeName + "/" + config.GetKind() + "/" + config.GetName()
}

func isProbe(path string) bool { return strings.HasPrefix(path, "/"+probeName+"/") }

// awaitProbes waits until the API server uses all configurations of the test, or none of them.
func (k *K) awaitProbes(ctx context.Context, want bool) error {
	ctx, cancel := context.WithTimeout(ctx, k.Timeout)
	defer cancel()
	for {
		k.webhooks.resetProbes()
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: probeName}}
		if err := k.admin.Create(ctx, probe, client.DryRunAll); err != nil && ctx.Err() == nil {
			return fmt.Errorf("waiting for the API server to use the webhook configurations: %w", err)
		}
		n := k.webhooks.probes()
		if want && n == len(k.webhooks.installed) || !want && n == 0 {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server to use the webhook configurations: %w", ctx.Err())
		}
	}
}

// endWebhooks removes the configurations while operators still run, so that their objects can be deleted without them.
func (k *K) endWebhooks(ctx context.Context) {
	if k.webhooks == nil {
		return
	}
	k.webhooks.gate.Open()
	for _, object := range k.webhooks.installed {
		k.deleteObject(ctx, object)
	}
	if err := k.awaitProbes(ctx, false); err != nil {
		k.t.Errorf("cleaning up: %v", err)
	}
}

// closeWebhooks ends the server.
func (k *K) closeWebhooks() {
	if k.webhooks != nil {
		k.webhooks.server.CloseClientConnections()
		k.webhooks.server.Close()
	}
}

func (w *webhooks) resetProbes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.probed)
}

func (w *webhooks) probes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.probed)
}

func (w *webhooks) add(s *webhookServer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers = append(w.servers, s)
}

// ServeHTTP implements [http.Handler].
func (w *webhooks) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	handler, ok := w.pick(req.URL.Path)
	if !ok || !isProbe(req.URL.Path) && w.gate.Refuses(req) { // as an API server reports a Service without a ready pod
		http.Error(out, "the webhooks of the test are not served", http.StatusServiceUnavailable)
		return
	}
	handler.ServeHTTP(out, req)
}

// pick returns the handler of a request.
func (w *webhooks) pick(path string) (http.Handler, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if isProbe(path) {
		w.probed[path] = true
	}
	if isProbe(path) || w.gate.IsOpen() {
		return http.HandlerFunc(allow), true
	}
	for range w.servers {
		w.next = (w.next + 1) % len(w.servers)
		if s := w.servers[w.next]; s.serves() {
			return s.mux, true
		}
	}
	return nil, false
}

// allow accepts every request.
func allow(out http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(out, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) //nolint:errchkjson // it fails if the API server is gone
}

// certificateOf returns the certificate of a server as PEM. The server is its own authority.
func certificateOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// ForwardWebhooks makes the API server call the webhooks of Env.Webhooks at a program that serves them at a URL, until stop
// is called. Several programs and operators of a test are called in turn. The transport must trust its certificate.
func (k *K) ForwardWebhooks(to *url.URL, transport http.RoundTripper) (stop func(), err error) {
	if err := k.startWebhooks(); err != nil {
		return nil, err
	}
	forward := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(out http.ResponseWriter, _ *http.Request, err error) {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
		},
	}
	server := &webhookServer{mux: http.NewServeMux(), disconnected: &atomic.Bool{}}
	server.mux.Handle("/", forward)
	server.started.Store(true)
	k.webhooks.add(server)
	return func() { server.disconnected.Store(true) }, nil
}

// webhookServer is the webhook server of one manager. It implements [webhook.Server].
type webhookServer struct {
	mux          *http.ServeMux
	started      atomic.Bool
	disconnected *atomic.Bool // of the operator
}

func (s *webhookServer) serves() bool { return s.started.Load() && !s.disconnected.Load() }

// NeedLeaderElection implements [webhook.Server].
func (s *webhookServer) NeedLeaderElection() bool { return false }

// Register implements [webhook.Server].
func (s *webhookServer) Register(path string, hook http.Handler) { s.mux.Handle(path, hook) }

// Start implements [webhook.Server].
func (s *webhookServer) Start(ctx context.Context) error {
	s.started.Store(true)
	defer s.started.Store(false)
	<-ctx.Done()
	return nil
}

// StartedChecker implements [webhook.Server].
func (s *webhookServer) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook server has not been started")
		}
		return nil
	}
}

// WebhookMux implements [webhook.Server].
func (s *webhookServer) WebhookMux() *http.ServeMux { return s.mux }

// The delays before a write of the user is sent again that was rejected because no operator serves webhooks. Package explore
// regards a step as blocked that sends nothing for a time, which is longer on a slow machine: the delay grows.
const (
	firstDelay = 250 * time.Millisecond
	lastDelay  = 2 * time.Second
)

// patientTransport repeats writes of the user, as a user would, while no operator of the test serves webhooks. A deletion
// is not repeated: the fault plans that delete objects without an operator would wait in vain.
type patientTransport struct {
	next http.RoundTripper
	k    *K
}

// saysUnavailable reports whether a response is about webhooks that no operator serves. The body can be read again.
func saysUnavailable(resp *http.Response) (bool, error) {
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return webhookconfig.IsUnserved(string(body)), err
}

// RoundTrip implements [http.RoundTripper].
func (p patientTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodDelete || req.GetBody == nil {
		return p.next.RoundTrip(req)
	}
	deadline := time.Now().Add(p.k.Timeout)
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		resp, err := p.next.RoundTrip(req)
		if err != nil || resp.StatusCode < http.StatusInternalServerError || !time.Now().Before(deadline) {
			return resp, err
		}
		isUnavailable, err := saysUnavailable(resp)
		if err != nil || !isUnavailable {
			return resp, err
		}
		select {
		case <-req.Context().Done():
			return resp, nil
		case <-time.After(delay):
		}
		body, err := req.GetBody()
		if err != nil {
			return nil, fmt.Errorf("repeating a request: %w", err)
		}
		req = req.Clone(req.Context())
		req.Body = body
	}
}

// unservedWebhooks is the webhook server of a manager whose test has no Env.Webhooks. The API server would not call it.
type unservedWebhooks struct {
	*webhookServer

	env   *Env
	paths []string
}

// Register implements [webhook.Server].
func (s *unservedWebhooks) Register(path string, hook http.Handler) {
	s.paths = append(s.paths, path)
	s.webhookServer.Register(path, hook)
}

// Start implements [webhook.Server]. Its error names the field that is missing.
func (s *unservedWebhooks) Start(ctx context.Context) error {
	for _, path := range s.paths {
		switch {
		case path != conversionPath:
			return fmt.Errorf("the operator has the admission webhook %s, and testkit.Env has no Webhooks: set it to the file with "+
				"the webhook configurations, such as \"config/webhook/manifests.yaml\", or run the operator without webhooks", path)
		case s.env.Conversion == nil:
			return fmt.Errorf("the operator has the conversion webhook %s, and testkit.Env has no Conversion: set it to the "+
				"operator's handler, or run the operator without webhooks", path)
		}
	}
	return s.webhookServer.Start(ctx)
}
