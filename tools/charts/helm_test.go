package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// helmTimeout is the time for which Helm waits for pods.
const helmTimeout = time.Minute

// releases are releases of one operator's chart.
type releases struct {
	t           *testing.T
	k           *testkit.K
	project     *sandbox.Project
	pods        *sandbox.PodRunner
	definitions []*unstructured.Unstructured
	controller  string // the name of the Deployment
	kubeconfig  string
	webhooks    bool // whether the operator has some
	// takeOwnership is the flag of that name.
	takeOwnership bool
}

func newReleases(t *testing.T, dir string) *releases {
	t.Helper()
	r := &releases{t: t, k: testkit.New(t), project: loadProject(t, dir), webhooks: hasPart(dir, "webhook")}
	objects, err := render(t, load(t, dir), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			r.definitions = append(r.definitions, o)
		}
	}
	r.controller = find(t, objects, "Deployment").GetName()
	if _, err = r.project.Build(t.Context()); err != nil { // Helm's timeout does not cover the build
		t.Fatal(err)
	}
	if r.pods, err = sandbox.RunPods(t.Context(), r.k.Config, []*sandbox.Project{r.project}, sandbox.PodsOptions{
		Report: func(line string) { t.Log(line) },
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range r.pods.Processes() {
			if t.Failed() {
				t.Logf("the end of the log of pod %s/%s:\n%s", p.Namespace, p.Name, p.LogTail())
			}
		}
		if err := r.pods.Stop(); err != nil {
			t.Error(err)
		}
	})
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

// helm returns the common configuration of Helm's commands.
func (r *releases) helm(namespace string) *action.Configuration {
	r.t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	cache := r.t.TempDir()
	flags.KubeConfig = &r.kubeconfig
	flags.Namespace = &namespace
	flags.CacheDir = &cache
	cfg := &action.Configuration{}
	if err := cfg.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

// tryInstall installs a release that is named like its namespace.
func (r *releases) tryInstall(namespace string, c *chart.Chart, set ...string) ([]*unstructured.Unstructured, error) {
	r.t.Helper()
	install := action.NewInstall(r.helm(namespace))
	install.ReleaseName = namespace
	install.Namespace = namespace
	install.Wait = true
	install.Timeout = helmTimeout
	install.TakeOwnership = r.takeOwnership
	release, err := install.RunWithContext(r.t.Context(), c, values(r.t, set...))
	if err != nil {
		return nil, err
	}
	return decode(r.t, release.Manifest), nil
}

// install runs `helm install --wait`. It returns the objects of the release.
func (r *releases) install(namespace string, c *chart.Chart, set ...string) []*unstructured.Unstructured {
	r.t.Helper()
	objects, err := r.tryInstall(namespace, c, set...)
	if err != nil {
		r.t.Fatalf("helm install %s --set %v: %v", namespace, set, err)
	}
	return objects
}

// checkInstallFails expects Helm to install nothing, with an error that contains want.
func (r *releases) checkInstallFails(namespace string, c *chart.Chart, want string, set ...string) {
	r.t.Helper()
	_, err := r.tryInstall(namespace, c, set...)
	if err == nil || !strings.Contains(err.Error(), want) {
		r.t.Fatalf("helm install %s --set %v: error %v, want one that says %q", namespace, set, err, want)
	}
}

// upgrade runs `helm upgrade --wait --reset-values`.
func (r *releases) upgrade(namespace string, c *chart.Chart, set ...string) []*unstructured.Unstructured {
	r.t.Helper()
	upgrade := action.NewUpgrade(r.helm(namespace))
	upgrade.Namespace = namespace
	upgrade.Wait = true
	upgrade.Timeout = helmTimeout
	upgrade.ResetValues = true
	release, err := upgrade.RunWithContext(r.t.Context(), namespace, c, values(r.t, set...))
	if err != nil {
		r.t.Fatalf("helm upgrade %s --set %v: %v", namespace, set, err)
	}
	return decode(r.t, release.Manifest)
}

func (r *releases) uninstall(namespace string) {
	r.t.Helper()
	uninstall := action.NewUninstall(r.helm(namespace))
	uninstall.Wait = true
	uninstall.Timeout = helmTimeout
	if _, err := uninstall.Run(namespace); err != nil {
		r.t.Fatalf("helm uninstall %s: %v", namespace, err)
	}
}

// checkPods expects the pods of a namespace to have had no rejected request and no restart.
func (r *releases) checkPods(home string) {
	r.t.Helper()
	processes := r.processes(home)
	if len(processes) == 0 {
		r.t.Fatalf("nothing runs in %s", home)
	}
	for _, p := range processes {
		log, err := os.ReadFile(p.LogFile)
		if err != nil || p.Restarts > 0 || strings.Contains(strings.ToLower(string(log)), "forbidden") {
			r.t.Errorf("pod %s/%s: %v, %d restarts\n%s", p.Namespace, p.Name, err, p.Restarts, log)
		}
	}
}

// processes returns the processes of the pods in a namespace.
func (r *releases) processes(home string) []sandbox.PodProcess {
	return slices.DeleteFunc(r.pods.Processes(), func(p sandbox.PodProcess) bool { return p.Namespace != home })
}

// impersonate returns a client configuration with the permissions of a ServiceAccount.
func (r *releases) impersonate(namespace, name string) *rest.Config {
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

// checkMetrics expects metrics to be served to a ServiceAccount with the chart's role for readers, and to no other.
func (r *releases) checkMetrics(home string) {
	r.t.Helper()
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
	address := r.processes(home)[0].MetricsAddress
	r.k.Wait("metrics", func(ctx context.Context) error {
		return r.checkMetricsStatus(ctx, address, r.impersonate(home, reader.Name).BearerToken, http.StatusOK)
	})
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, r.impersonate(home, stranger.Name).BearerToken: http.StatusForbidden,
	} {
		if err := r.checkMetricsStatus(r.t.Context(), address, token, want); err != nil {
			r.t.Error(err)
		}
	}
}

// checkMetricsStatus expects a request for metrics to return that status.
func (r *releases) checkMetricsStatus(ctx context.Context, address, token string, want int) error {
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
