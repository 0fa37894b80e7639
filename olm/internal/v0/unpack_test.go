package v0_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/olm/internal/v0"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{Workloads: true, Private: true, Objects: v0.Objects(), AddToScheme: v0.AddToScheme})
}

// Bundles are unpacked while OLM runs, although the API server ends each watch after a while, and no pod is held after it
// has stopped.
func TestUnpack(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Timeout = time.Minute
	watches := &shortWatch{}
	cfg := rest.CopyConfig(k.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		watches.next = next
		return watches
	})
	lifecycle, err := v0.Start(t.Context(), cfg, v0.Options{
		Programs: "../../programs", Dir: t.TempDir(), Notice: func(line string) { t.Log(line) },
		Bundles: func(string) (string, error) { return t.TempDir(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lifecycle.Stop)
	for _, name := range []string{"first", "second"} {
		pod := unpackPod(name)
		k.Apply(pod)
		k.Eventually(pod, testkit.Match("its bundle is unpacked", func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodSucceeded
		}))
		ended := watches.ended.Load()
		k.Wait("the API server has ended a watch", func(context.Context) error {
			if watches.ended.Load() == ended {
				return errors.New("it has not")
			}
			return nil
		})
	}
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v0.Namespace}}
	k.Get(home)
	if len(home.Annotations) == 0 {
		t.Error("nothing is held while OLM runs")
	}
	lifecycle.Stop()
	k.Get(home)
	if len(home.Annotations) > 0 {
		t.Errorf("these are left: %v", home.Annotations)
	}
}

// unpackPod returns a pod like that of OLM's Job, with another command for opm.
func unpackPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: v0.Namespace, Labels: map[string]string{"operatorframework.io/bundle-unpack-ref": name},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "extract", Image: "opm", Command: []string{"opm", "version"},
				Env: []corev1.EnvVar{{Name: "CONTAINER_IMAGE", Value: name}},
			}},
		},
	}
}

// shortWatch makes the API server end each watch after a second.
type shortWatch struct {
	next  http.RoundTripper
	ended atomic.Int64
}

func (h *shortWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/pods") {
		return h.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	query.Set("timeoutSeconds", "1")
	r.URL.RawQuery = query.Encode()
	answer, err := h.next.RoundTrip(r)
	if err == nil {
		answer.Body = &body{answer.Body, func() { h.ended.Add(1) }}
	}
	return answer, err
}

// body reports when it has been read completely.
type body struct {
	io.ReadCloser
	done func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.done()
	}
	return n, err
}
