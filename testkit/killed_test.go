package testkit

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// Requests of a killed operator get no response, except for Events: client-go would log those, retry them for minutes, and
// keep the operator in memory.
func TestKilledOperatorsEventsSeemWritten(t *testing.T) {
	t.Parallel()
	cut := &atomic.Bool{}
	cut.Store(true)
	cfg := &rest.Config{Host: "http://127.0.0.1:1", WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		return &disconnectable{next: next, disconnected: cut}
	}}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, old := client.CoreV1().Events("a").Create(ctx, &corev1.Event{}, metav1.CreateOptions{})
	_, current := client.EventsV1().Events("a").Create(ctx, &eventsv1.Event{}, metav1.CreateOptions{})
	_, repeated := client.EventsV1().Events("a").Patch(ctx, "b", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
	for _, err := range []error{old, current, repeated} {
		if err != nil {
			t.Errorf("the response to an event is %v", err)
		}
	}
	if _, err := client.CoreV1().Pods("a").Get(ctx, "b", metav1.GetOptions{}); !errors.Is(err, intercept.ErrDisconnected) {
		t.Errorf("the response to a pod is %v", err)
	}
}
