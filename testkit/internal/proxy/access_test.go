package proxy_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat-dev/homeostat/testkit/internal/proxy"
)

func TestTokenIsRequired(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var users []string
	wrap := stub(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		users = append(users, proxy.User(req.Context()))
		return respond(req, http.StatusOK, "{}"), nil
	})
	p, another := start(t, proxy.Options{Wrap: wrap}), start(t, proxy.Options{Wrap: wrap})
	one, two, foreign := config(t, p, "one"), config(t, p, "two"), config(t, another, "one")
	if again := config(t, p, "one"); again.BearerToken != one.BearerToken {
		t.Error("the same user got another token")
	}
	tests := map[string]struct {
		reason, token string
		want          int
	}{
		"One":     {"it has a token", one.BearerToken, http.StatusOK},
		"Two":     {"so has another user", two.BearerToken, http.StatusOK},
		"None":    {"every process on this machine can connect", "", http.StatusUnauthorized},
		"Invalid": {"it belongs to no user", "x", http.StatusUnauthorized},
		"Foreign": {"it is for another proxy", foreign.BearerToken, http.StatusUnauthorized},
	}
	for name, tt := range tests {
		cfg := rest.AnonymousClientConfig(one)
		cfg.BearerToken = tt.token
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = c.RESTClient().Get().AbsPath("/version").Do(t.Context()).Error()
		var status apierrors.APIStatus
		got := http.StatusOK
		if errors.As(err, &status) {
			got = int(status.Status().Code)
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %d, because %s", name, err, tt.want, tt.reason)
		}
		if got == http.StatusUnauthorized && !strings.Contains(err.Error(), "use the kubeconfig that was written for") {
			t.Errorf("%s: %v does not explain the correction", name, err)
		}
	}
	if len(users) != 2 || users[0] == users[1] || users[0]+users[1] != "onetwo" && users[0]+users[1] != "twoone" {
		t.Errorf("the RoundTripper saw requests of %q", users)
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}, 1), make(chan struct{})
	p := start(t, proxy.Options{Wrap: stub(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/quick" {
			return respond(req, http.StatusOK, ""), nil
		}
		entered <- struct{}{}
		<-req.Context().Done()
		close(left)
		return nil, req.Context().Err()
	})})
	killed, alive := newClient(t, p, "killed", "h2"), newClient(t, p, "alive", "h2")
	result := make(chan error, 1)
	go func() {
		resp, err := killed.Do(get(t.Context(), t, p, "/slow"))
		if err == nil {
			_ = resp.Body.Close()
		}
		result <- err
	}()
	<-entered
	p.Revoke("killed")
	select {
	case <-left:
	default:
		t.Error("a request of the revoked user was still in progress")
	}
	if err := <-result; err == nil {
		t.Error("the request of the revoked user got a response")
	}
	codes := map[string]int{}
	for name, c := range map[string]*http.Client{
		"revoked": killed, "other": alive, "new": newClient(t, p, "killed", "h2"),
	} {
		resp, err := c.Do(get(t.Context(), t, p, "/quick"))
		if err != nil {
			t.Fatal(err)
		}
		_ = read(t, resp)
		codes[name] = resp.StatusCode
	}
	if diff := cmp.Diff(map[string]int{"revoked": 401, "other": 200, "new": 200}, codes); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

func TestWriteKubeconfig(t *testing.T) {
	t.Parallel()
	p := start(t, proxy.Options{Namespace: "ns", Wrap: stub(func(req *http.Request) (*http.Response, error) {
		return respond(req, http.StatusOK, proxy.User(req.Context())), nil
	})})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("readable by all"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteKubeconfig(file, "operator"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: other users may read it", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("there are other files: %v, %v", entries, err)
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, nil)
	if ns, _, err := loader.Namespace(); err != nil || ns != "ns" {
		t.Errorf("its namespace is %q, %v", ns, err)
	}
	cfg, err := loader.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(get(t.Context(), t, p, "/"))
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, resp); got != "operator" {
		t.Errorf("it sends requests as %q", got)
	}
}

func TestKubeconfigWriteError(t *testing.T) {
	t.Parallel()
	p := start(t, proxy.Options{})
	dir := t.TempDir()
	err := p.WriteKubeconfig(filepath.Join(dir, "none", "kubeconfig"), "operator")
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "writing the kubeconfig of operator: ") {
		t.Errorf("where there is no folder: %v", err)
	}
	p.Close()
	if err := p.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), "late"); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestImpersonatingTarget checks that a token is valid for one user only, even if the proxy's target has all
// permissions.
func TestImpersonatingTarget(t *testing.T) {
	t.Parallel()
	target := &rest.Config{Host: "https://127.0.0.1:1", Impersonate: rest.ImpersonationConfig{UserName: "operator"}}
	p := start(t, proxy.Options{Target: target, Wrap: stub(func(req *http.Request) (*http.Response, error) {
		return respond(req, http.StatusOK, "{}"), nil
	})})
	cfg := config(t, p, "operator")
	for user, refused := range map[string]bool{"": false, "admin": true} {
		cfg.Impersonate.UserName = user
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.CoreV1().ConfigMaps("x").List(t.Context(), metav1.ListOptions{})
		if apierrors.IsForbidden(err) != refused {
			t.Errorf("as %q: %v", user, err)
		}
	}
}
