package mailbox_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// A process is the operator as a program.
type process struct {
	t   *testing.T
	cmd *exec.Cmd

	mu   sync.Mutex
	logs bytes.Buffer
}

// Write implements io.Writer for the output of the program.
func (p *process) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.Write(data)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.String()
}

// exit waits until the program has ended, and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	var failure *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &failure) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	p.exit()
}

// start starts the program for the test's namespace. It is killed after the test.
func start(t *testing.T, k *testkit.K, args ...string) *process {
	t.Helper()
	return startAs(t, k.Config, "1", append([]string{"--watch-namespaces=" + k.Namespace}, args...)...)
}

// startAs starts a program as the user of cfg.
func startAs(t *testing.T, cfg *rest.Config, variant string, args ...string) *process {
	t.Helper()
	data, err := cluster.Kubeconfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--kubeconfig=" + file}, args...)
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), self, args...)}
	p.cmd.Env = []string{operatorVariable + "=" + variant, "HOME=" + t.TempDir()}
	p.cmd.Stdout = p
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.output())
		}
	})
	return p
}

// freeAddress returns a loopback address with an unused port. The port is not one of those that the kernel assigns: another
// process would get it before the program listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	for t.Context().Err() == nil {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(10000)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// ready waits until /readyz answers 200.
func ready(k *testkit.K, p *process, address string) {
	k.Wait("the program is ready", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, p.output())
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s\n%s", resp.Status, p.output())
		}
		return nil
	})
}

// install creates the shipped configurations, with the address in place of the Service, for the namespace of the test alone.
func install(
	t *testing.T, k *testkit.K, address string, caBundle []byte,
) (name string, configs []*unstructured.Unstructured) {
	t.Helper()
	name = "mailbox-" + k.Namespace
	for _, config := range readManifests(t, "webhook/manifests.yaml") {
		config.SetName(name)
		callAddress(t, config, address)
		webhooks, _, err := unstructured.NestedSlice(config.Object, "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range webhooks {
			webhook := item.(map[string]any)
			webhook["namespaceSelector"] = map[string]any{
				"matchLabels": map[string]any{corev1.LabelMetadataName: k.Namespace},
			}
			if caBundle != nil {
				webhook["clientConfig"].(map[string]any)["caBundle"] = base64.StdEncoding.EncodeToString(caBundle)
			}
		}
		if err := unstructured.SetNestedSlice(config.Object, webhooks, "webhooks"); err != nil {
			t.Fatal(err)
		}
		k.Apply(config)
		configs = append(configs, config)
	}
	return name, configs
}

// awaitDenied waits until a mailbox is denied by the webhook: the API server learns of a configuration with a delay.
func awaitDenied(k *testkit.K) {
	k.Wait("the API server calls the webhook", func(context.Context) error { return denies(k) })
}

// denies returns an error unless the webhook denies a mailbox.
func denies(k *testkit.K) error {
	m := newMailbox("nowhere")
	m.Namespace = k.Namespace
	m.GenerateName = "never-"
	m.Name = ""
	err := k.Client.Create(k.Context(), m)
	if err == nil || !strings.HasPrefix(err.Error(), denied) {
		return fmt.Errorf("the answer is %w", err)
	}
	return nil
}

// secret returns the certificates in the Secret of the program.
func secret(k *testkit.K) string {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mailbox-webhook-ca"}}
	k.Get(s)
	return string(s.Data["ca.crt"])
}

// ofOwn are the flags for a certificate of its own.
func ofOwn(k *testkit.K, configuration, address, probes string, more ...string) []string {
	return append([]string{
		"--webhook-bind-address=" + address, "--webhook-service=" + k.Namespace + "/mailbox-webhook",
		"--webhook-configuration=" + configuration, "--health-probe-bind-address=" + probes,
	}, more...)
}

// The authority is replaced while two replicas serve webhooks, and no request fails.
func TestRenewal(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	addresses := []string{freeAddress(t), freeAddress(t)}
	name, configs := install(t, k, addresses[0], nil)
	for i, address := range addresses {
		probes := freeAddress(t)
		elect := []string{"--leader-elect", "--leader-election-namespace=" + k.Namespace, "--webhook-ca-lifetime=12s"}
		ready(k, start(t, k, ofOwn(k, name, address, probes, elect...)...), probes)
		if i == 0 {
			awaitDenied(k)
		}
	}
	first := secret(k)
	k.Wait("another authority signs", func(ctx context.Context) error {
		if err := denies(k); err != nil {
			t.Errorf("a request failed during the renewal: %v", err)
		}
		pending := false
		for _, address := range addresses {
			signed, err := signedBy(ctx, k, configs[0], address, first)
			if err != nil {
				t.Errorf("a replica has a certificate that the API server does not trust: %v", err)
			}
			pending = pending || signed
		}
		if pending {
			return errors.New("the first authority signs")
		}
		return nil
	})
	if secret(k) == first {
		t.Error("the Secret has not changed")
	}
}

// signedBy reports whether the certificate of a server is signed by these authorities. The error says that it is not signed
// by those of the configuration.
func signedBy(
	ctx context.Context, k *testkit.K, config *unstructured.Unstructured, address, authorities string,
) (bool, error) {
	k.Get(config)
	webhooks, _, _ := unstructured.NestedSlice(config.Object, "webhooks")
	encoded, _, _ := unstructured.NestedString(webhooks[0].(map[string]any), "clientConfig", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return false, err
	}
	trusted, old := x509.NewCertPool(), x509.NewCertPool()
	trusted.AppendCertsFromPEM(bundle)
	old.AppendCertsFromPEM([]byte(authorities))
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	served := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	name := "mailbox-webhook." + k.Namespace + ".svc"
	if _, err := served.Verify(x509.VerifyOptions{Roots: trusted, DNSName: name}); err != nil {
		return false, err
	}
	_, err = served.Verify(x509.VerifyOptions{Roots: old})
	return err == nil, nil
}

// A restarted program uses the authority in the Secret again. One that finds an unusable Secret replaces it.
func TestProgramRestart(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	address, probes := freeAddress(t), freeAddress(t)
	name, _ := install(t, k, address, nil)
	args := ofOwn(k, name, address, probes)
	p := start(t, k, args...)
	ready(k, p, probes)
	awaitDenied(k)
	first := secret(k)
	p.kill()
	if err := denies(k); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("without the program: %v", err)
	}
	p = start(t, k, args...)
	ready(k, p, probes)
	awaitDenied(k)
	if secret(k) != first {
		t.Error("the restarted program has replaced the authority")
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mailbox-webhook-ca"}}
	k.Update(s, func() { s.Data["ca.key"] = []byte("unusable") })
	k.Wait("the authority is replaced", func(context.Context) error {
		if secret(k) == first {
			return errors.New(p.output())
		}
		return nil
	})
	awaitDenied(k)
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(newMailbox("a@example.com"))
	address := freeAddress(t)
	name, configs := install(t, k, address, nil)
	version := configs[0].GetResourceVersion()
	p := start(t, k, ofOwn(k, name, address, freeAddress(t), "--dry-run")...)
	if code := p.exit(); code != 0 || !strings.Contains(p.output(), "ConfigMap") {
		t.Errorf("exit code %d, output %s", code, p.output())
	}
	secrets := &corev1.SecretList{}
	if err := k.Client.List(k.Context(), secrets, inNamespace(k)); err != nil || len(secrets.Items) > 0 {
		t.Errorf("%d Secrets, %v", len(secrets.Items), err)
	}
	if k.Get(configs[0]); configs[0].GetResourceVersion() != version {
		t.Error("the webhook configuration was written")
	}
}

func TestMissingFolder(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	p := start(t, k, "--webhook-cert-dir=/nonexistent")
	want := `--webhook-cert-dir="/nonexistent": the certificate of the webhooks is missing: ` +
		"stat /nonexistent/tls.crt: no such file or directory: mount the Secret with tls.crt and tls.key there (see --help)\n"
	if code := p.exit(); code != 2 || p.output() != want {
		t.Errorf("exit code %d, output\n%swant\n%s", code, p.output(), want)
	}
	p = start(t, k, "--webhook-bind-address=127.0.0.1:9443")
	const outside = "preparing the webhooks of operator mailbox: --webhook-service=mailbox-webhook: the program does " +
		"not run in a cluster, whose namespace it would take: set it to NAMESPACE/NAME, or set --webhook-cert-dir (see --help)\n"
	if code := p.exit(); code != 2 || !strings.HasSuffix(p.output(), outside) {
		t.Errorf("exit code %d, output\n%swant\n%s", code, p.output(), outside)
	}
}
