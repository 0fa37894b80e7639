package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// A token is replaced before it expires, and clients of the kubeconfig see the new one.
func TestTokenIsRefreshed(t *testing.T) {
	t.Parallel()
	set, err := assets.Find(t.Context(), assets.Options{Programs: cluster.Programs(cluster.API)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{Binaries: set.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "op"}}
	admin, err := client.New(c.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	who := &credentials{
		client: admin, config: c.Config(), account: client.ObjectKeyFromObject(account), file: filepath.Join(t.TempDir(), "op"),
		name: "op", report: t.Logf,
	}
	kubeconfig, _, err := who.write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := who.token()
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Second) // tokens of the same second are equal
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { who.refresh(time.Now().Add(100*time.Millisecond), stop) })
	changed := func(context.Context) (bool, error) {
		now, err := os.ReadFile(file)
		return string(now) != string(first), err
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, changed); err != nil {
		t.Fatalf("the token stays the same: %v", err)
	}
	close(stop)
	wg.Wait()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(cfg).Discovery().ServerVersion(); err != nil {
		t.Errorf("the server does not take the new token: %v", err)
	}
}
