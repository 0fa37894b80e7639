package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// patience is how long Helm waits for pods.
const patience = time.Minute

// releases are those of one operator's chart.
type releases struct {
	t           *testing.T
	k           *testkit.K
	project     *sandbox.Project
	program     string
	definitions []*unstructured.Unstructured
	kubeconfig  string
	// takeOwnership is the flag of that name.
	takeOwnership bool
}

func newReleases(t *testing.T, dir string) *releases {
	t.Helper()
	r := &releases{t: t, k: testkit.New(t), project: loadProject(t, dir)}
	objects, err := render(t, load(t, dir), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			r.definitions = append(r.definitions, o)
		}
	}
	if r.program, err = r.project.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.kubeconfig = r.writeKubeconfig(r.k.Config)
	return r
}

func (r *releases) writeKubeconfig(cfg *rest.Config) string {
	r.t.Helper()
	data, err := cluster.Kubeconfig(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

// helm is what the commands of Helm share.
func (r *releases) helm(namespace string) *action.Configuration {
	r.t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	cache := r.t.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &r.kubeconfig, &namespace, &cache
	cfg := &action.Configuration{}
	if err := cfg.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

// A release is called as its namespace is.
func (r *releases) tryInstall(namespace string, c *chart.Chart, set ...string) ([]*unstructured.Unstructured, error) {
	r.t.Helper()
	install := action.NewInstall(r.helm(namespace))
	install.ReleaseName, install.Namespace = namespace, namespace
	install.Wait, install.Timeout, install.TakeOwnership = true, patience, r.takeOwnership
	release, err := install.RunWithContext(r.t.Context(), c, values(r.t, set...))
	if err != nil {
		return nil, err
	}
	return decode(r.t, release.Manifest), nil
}

// install is `helm install --wait`. It returns what is in the release.
func (r *releases) install(namespace string, c *chart.Chart, set ...string) []*unstructured.Unstructured {
	r.t.Helper()
	objects, err := r.tryInstall(namespace, c, set...)
	if err != nil {
		r.t.Fatalf("helm install %s --set %v: %v", namespace, set, err)
	}
	return objects
}

// refused wants Helm to install nothing, and to say why.
func (r *releases) refused(namespace string, c *chart.Chart, want string, set ...string) {
	r.t.Helper()
	_, err := r.tryInstall(namespace, c, set...)
	if err == nil || !strings.Contains(err.Error(), want) {
		r.t.Fatalf("helm install %s --set %v: error %v, want one that says %q", namespace, set, err, want)
	}
}

// upgrade is `helm upgrade --wait --reset-values`.
func (r *releases) upgrade(namespace string, c *chart.Chart, set ...string) []*unstructured.Unstructured {
	r.t.Helper()
	upgrade := action.NewUpgrade(r.helm(namespace))
	upgrade.Namespace, upgrade.Wait, upgrade.Timeout, upgrade.ResetValues = namespace, true, patience, true
	release, err := upgrade.RunWithContext(r.t.Context(), namespace, c, values(r.t, set...))
	if err != nil {
		r.t.Fatalf("helm upgrade %s --set %v: %v", namespace, set, err)
	}
	return decode(r.t, release.Manifest)
}

func (r *releases) uninstall(namespace string) {
	r.t.Helper()
	uninstall := action.NewUninstall(r.helm(namespace))
	uninstall.Wait, uninstall.Timeout = true, patience
	if _, err := uninstall.Run(namespace); err != nil {
		r.t.Fatalf("helm uninstall %s: %v", namespace, err)
	}
}

// run starts the operator's program as the Deployment in a namespace says, with the rights of its ServiceAccount, and
// returns a function that ends it. It has to end in order, without having been refused anything. Metrics are served, if
// they are at all, at the given address.
func (r *releases) run(home, metrics string) (stop func()) {
	r.t.Helper()
	c := r.deployment(home).Spec.Template.Spec.Containers[0]
	args := append(c.Args, //nolint:gocritic // nobody else has this slice
		"--kubeconfig="+r.writeKubeconfig(r.as(home, r.account(home))),
		"--leader-election-namespace="+home, // in a pod it is that of the pod
		"--health-probe-bind-address=0", "--metrics-bind-address="+metrics)
	var log bytes.Buffer
	cmd := exec.CommandContext(r.t.Context(), r.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), &log, &log
	for _, v := range c.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := false
	wait := func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // if it has ended before, Wait says how
		if err := cmd.Wait(); err != nil || strings.Contains(strings.ToLower(log.String()), "forbidden") || r.t.Failed() {
			r.t.Errorf("%s %s: %v\n%s", r.project.Name, strings.Join(args, " "), err, &log)
		}
	}
	r.t.Cleanup(wait)
	return wait
}

// as returns the configuration of a client with the rights of a ServiceAccount.
func (r *releases) as(namespace, name string) *rest.Config {
	r.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	token := &authenticationv1.TokenRequest{}
	if err := r.k.Client.SubResource("token").Create(r.t.Context(), account, token); err != nil {
		r.t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(r.k.Config)
	cfg.BearerToken = token.Status.Token
	return cfg
}

// metricsAreServed wants metrics to be there for a ServiceAccount with the role that the chart brings for that, and for
// no other.
func (r *releases) metricsAreServed(home string) {
	r.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		r.t.Fatal(err)
	}
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "reader"}}
	stranger := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "stranger"}}
	prefix, _ := strings.CutSuffix(r.deployment(home).Name, "-controller")
	r.k.Apply(reader)
	r.k.Apply(stranger)
	r.k.Apply(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: home + "-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: prefix + "-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: home, Name: reader.Name}},
	})
	stop := r.run(home, address)
	r.k.Wait("metrics", func(ctx context.Context) error {
		return r.fetch(ctx, address, r.as(home, reader.Name).BearerToken, http.StatusOK)
	})
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, r.as(home, stranger.Name).BearerToken: http.StatusForbidden,
	} {
		if err := r.fetch(r.t.Context(), address, token, want); err != nil {
			r.t.Error(err)
		}
	}
	stop()
}

// fetch wants the metrics to be answered with that status.
func (r *releases) fetch(ctx context.Context, address, token string, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != want {
		return fmt.Errorf("metrics are answered with %s, want %d: %s", response.Status, want, body)
	}
	return nil
}
