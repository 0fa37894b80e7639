package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// A token is replaced before it expires, and who reads the kubeconfig sees the new one.
func TestTokenIsRefreshed(t *testing.T) {
	t.Parallel()
	set, err := assets.Find(t.Context(), assets.Options{Need: cluster.Programs(cluster.API)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{Binaries: set.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "op"}}
	s := &Sandbox{dir: t.TempDir(), config: c.Config(), stopped: make(chan struct{})}
	if s.client, err = client.New(s.config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	p := &Project{Name: "op", Deployment: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}}
	p.Deployment.Spec.Template.Spec.ServiceAccountName = "op"
	kubeconfig, err := s.credentials(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, "op.token")
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Second) // tokens of the same second are the same
	s.wg.Go(func() { s.refresh(p, file, time.Now().Add(100*time.Millisecond)) })
	changed := func(context.Context) (bool, error) {
		now, err := os.ReadFile(file)
		return string(now) != string(first), err
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, changed); err != nil {
		t.Fatalf("the token stays the same: %v", err)
	}
	close(s.stopped)
	s.wg.Wait()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(cfg).Discovery().ServerVersion(); err != nil {
		t.Errorf("the server does not take the new token: %v", err)
	}
}
