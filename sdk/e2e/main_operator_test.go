package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

// fetch returns the status code and the body of a response; the code is 0 without a response.
func fetch(ctx context.Context, url, token string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func waitForResponse(k *testkit.K, url, token string, want int) (body string) {
	k.Wait(fmt.Sprintf("%s answers %d", url, want), func(ctx context.Context) error {
		code, got, err := fetch(ctx, url, token)
		if err == nil && code != want {
			err = fmt.Errorf("it answers %d: %s", code, got)
		}
		body = got
		return err
	})
	return body
}

func TestProgramServesProbesAndMetrics(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	probes, metrics := freeAddress(t), freeAddress(t)
	p := runOn(t, k, "--health-probe-bind-address="+probes, "--metrics-bind-address="+metrics)
	waitForResponse(k, "http://"+probes+"/healthz", "", http.StatusOK)
	waitForResponse(k, "http://"+probes+"/readyz", "", http.StatusOK)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "unprivileged"}}
	k.Apply(account)
	token := &authenticationv1.TokenRequest{}
	if err := k.Client.SubResource("token").Create(k.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	waitForResponse(k, "https://"+metrics+"/metrics", "", http.StatusUnauthorized)
	waitForResponse(k, "https://"+metrics+"/metrics", token.Status.Token, http.StatusForbidden)
	body := waitForResponse(k, "https://"+metrics+"/metrics", k.Config.BearerToken, http.StatusOK)
	if !strings.Contains(body, `controller_runtime_reconcile_total{controller="sdk-e2e"`) {
		t.Errorf("no metric of the operator among %d bytes", len(body))
	}
	if code, _, err := fetch(k.Context(), "http://"+metrics+"/metrics", k.Config.BearerToken); code == http.StatusOK {
		t.Errorf("the metrics are served without TLS too: %d, %v", code, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d after a shutdown that was asked for: %s", code, p.errors())
	}
}

// Until the informers are in sync the program is healthy, but not ready.
func TestProgramIsNotReadyBeforeCacheSync(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	probes := freeAddress(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "unprivileged"}}
	k.Apply(account)
	token := &authenticationv1.TokenRequest{}
	if err := k.Client.SubResource("token").Create(k.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	k.Config.BearerToken = token.Status.Token // has no permissions
	runOn(t, k, "--health-probe-bind-address="+probes)
	waitForResponse(k, "http://"+probes+"/healthz", "", http.StatusOK)
	waitForResponse(k, "http://"+probes+"/readyz", "", http.StatusInternalServerError)
}

// A shutdown does not interrupt a reconcile in progress: its plan and its status are written.
func TestShutdownFinishesReconciles(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	p := runOn(t, k)
	s := newSite("a")
	s.Spec.Text = "slow"
	k.Apply(s)
	p.waitFor(k, "pass over a: slow")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d: %s", code, p.errors())
	}
	k.Eventually(s, testkit.Ready())
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), text("slow"))
}

// A second signal ends the program immediately, and not at the end of the shutdown, which waits 30 seconds for a reconcile.
func TestSecondSignalExitsImmediately(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	p := runOn(t, k)
	s := newSite("a")
	s.Spec.Text = "endless"
	k.Apply(s)
	p.waitFor(k, "pass over a: endless")
	started := time.Now()
	for { // two signals at once may arrive as one
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails after the exit
		select {
		case <-p.read:
			if code, took := p.exit(), time.Since(started); code == 0 || took > 20*time.Second {
				t.Errorf("exit code %d after %v", code, took)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestLeaderElection(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	elect := []string{"--leader-elect", "--leader-election-namespace=" + k.Namespace}
	first := runOn(t, k, elect...)
	s := newSite("a")
	s.Spec.Text = "one"
	k.Apply(s)
	first.waitFor(k, "pass over a: one")
	second := runOn(t, k, append(elect, "--health-probe-bind-address="+freeAddress(t))...)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: operatorName + ".homeostat.dev"}}
	k.Eventually(lease, testkit.Exists())

	k.Update(s, func() { s.Spec.Text = "two" })
	first.waitFor(k, "pass over a: two")
	if second.printed("pass over a: two") {
		t.Error("both replicas work")
	}
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.exit(); code != 0 {
		t.Errorf("exit code %d: %s", code, first.errors())
	}
	second.waitFor(k, "pass over a: two")
	k.Update(s, func() { s.Spec.Text = "three" })
	second.waitFor(k, "pass over a: three")
	k.Eventually(named(&corev1.ConfigMap{}, s.Name), text("three"))
}
