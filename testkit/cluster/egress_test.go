package cluster_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// The API server calls webhooks by the name of their Service, whose process is at a loopback address. The error says why it
// cannot.
func TestEgress(t *testing.T) {
	t.Parallel()
	client := kubernetes.NewForConfigOrDie(start(t, cluster.Options{}).Config())
	hook, authority := startHook(t)
	address := hook.Listener.Addr().String()
	path := "/path"
	configure(t, client, admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook", Path: &path},
		CABundle: authority,
	})
	services, pods := client.CoreV1().Services("default"), client.CoreV1().Pods("default")
	await := func(want string) {
		t.Helper()
		got := ""
		defer func() {
			if t.Failed() {
				t.Logf("the last error is %q, want %q", got, want)
			}
		}()
		until(t, func() bool {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}
			_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
			if err != nil {
				got = err.Error()
			}
			return err != nil && strings.Contains(got, want)
		})
	}
	await(`service "hook" not found`)
	service, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await("503 no process serves Service default/hook")

	ready := func(name, at string, status corev1.ConditionStatus) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels, Annotations: map[string]string{cluster.AddressAnnotation: at},
		}, Spec: template().Spec}
		if pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ready("starts", "127.0.0.1:1", corev1.ConditionFalse)
	await("503 no process serves Service default/hook")
	ready("runs", address, corev1.ConditionTrue)
	await("called as hook.default.svc/path")

	hook.CloseClientConnections()
	service.Annotations = map[string]string{cluster.AddressAnnotation: "127.0.0.1:1"}
	if _, err := services.Update(t.Context(), service, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("503 the process of Service default/hook does not serve: dial tcp 127.0.0.1:1: connect: connection refused")
}

// configure makes the API server call a webhook for the creation of ConfigMaps.
func configure(t *testing.T, client kubernetes.Interface, config admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "hook"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "hook.example.com", ClientConfig: config, AdmissionReviewVersions: []string{"v1"},
				SideEffects: new(admissionregistrationv1.SideEffectClassNone),
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
					},
				}},
			}},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// startHook serves a webhook that rejects every request. It has a certificate for the Service hook.
func startHook(t *testing.T) (server *httptest.Server, authority []byte) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("hook.default.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{
			Message: "called as " + req.TLS.ServerName + req.URL.Path,
		}}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, certificate
}
