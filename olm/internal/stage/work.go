package stage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// An Observer reads the metrics of operators, with a ServiceAccount that may do that and nothing else.
type Observer struct{ client *http.Client }

// NewObserver makes an Observer, whose ServiceAccount is in a namespace of the cluster.
func NewObserver(ctx context.Context, c client.Client, cfg *rest.Config, namespace string) (*Observer, error) {
	name := metav1.ObjectMeta{Name: namespace + "-observer"}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: namespace}},
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name.Name, Namespace: namespace}},
		},
	} {
		if err := c.Create(ctx, o); err != nil {
			return nil, fmt.Errorf("letting somebody read metrics: %w", err)
		}
	}
	as, err := programs.As(ctx, c, cfg, namespace, name.Name, nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	insecure := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // each process makes its own certificate
		DisableKeepAlives: true,                                  // and goes away
	}
	return &Observer{client: &http.Client{
		Timeout: 10 * time.Second, Transport: transport.NewBearerAuthRoundTripper(as.BearerToken, insecure),
	}}, nil
}

// Done returns why an operator, of whose pods these are the processes, is not done with so many objects: there is not one
// pod, which runs this image, or its program is not done. That the objects are Ready says nothing about a program that has
// just begun.
func (o *Observer) Done(
	ctx context.Context, c client.Client, processes []sandbox.PodProcess, operator, image string, objects int,
) error {
	processes = slices.DeleteFunc(processes, func(p sandbox.PodProcess) bool { return p.Project != operator })
	if len(processes) != 1 {
		return fmt.Errorf("%s has %d pods, want one", operator, len(processes))
	}
	pod := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: processes[0].Namespace, Name: processes[0].Name}, pod); err != nil {
		return fmt.Errorf("looking for the pod of %s: %w", operator, err)
	}
	if got := pod.Spec.Containers[0].Image; got != image {
		return fmt.Errorf("%s runs %s, want %s", pod.Name, got, image)
	}
	return o.done(ctx, processes[0], objects)
}

// done returns why the program of a pod is not done with so many objects: it has not reconciled as many since it runs, or
// it has something to do now.
func (o *Observer) done(ctx context.Context, pod sandbox.PodProcess, objects int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+pod.MetricsAddress+"/metrics", nil)
	if err != nil {
		return fmt.Errorf("asking %s what it does: %w", pod.Name, err)
	}
	response, err := o.client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s what it does: %w", pod.Name, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New("asking " + pod.Name + " what it does: " + response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	metrics, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fmt.Errorf("reading what %s does: %w", pod.Name, err)
	}
	sum := func(name string) (all float64) {
		for _, m := range metrics[name].GetMetric() {
			all += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		return all
	}
	if done := sum("controller_runtime_reconcile_total"); done < float64(objects) {
		return fmt.Errorf("%s has reconciled %v times, %d objects are there", pod.Name, done, objects)
	}
	if busy := sum("workqueue_depth") + sum("controller_runtime_active_workers"); busy > 0 {
		return fmt.Errorf("%s has %v objects to reconcile", pod.Name, busy)
	}
	return nil
}
