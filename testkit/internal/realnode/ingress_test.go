//go:build linux

package realnode_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/cert"

	"github.com/homeostat-dev/homeostat/testkit"
)

// ingress routes a host and the paths below a prefix to the Service of a pod.
func ingress(host, path, pod string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: pod}}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: pod, Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	rule := networkingv1.IngressRule{Host: host}
	rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
		{Path: path, PathType: new(networkingv1.PathTypePrefix), Backend: backend},
	}}
	i.Spec.Rules = []networkingv1.IngressRule{rule}
	return i
}

// get returns the response to a request through the Ingress controller.
func get(ctx context.Context, transport http.RoundTripper, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return "", errors.Join(err, errors.New(response.Status))
	}
	return string(body), err
}

// The host and the longest path decide which pod responds, an exact host before one with a wildcard, which may have a
// certificate. Other classes and hosts are not served. Pods reach the controller by its Service, whose address the Ingress
// has in its status.
func TestIngress(t *testing.T) {
	t.Parallel()
	k := start(t)
	host := func(name string) string { return name + "." + k.Namespace + ".example.com" } // the controller serves all tests
	ingresses := map[string]*networkingv1.Ingress{
		"wildcard": ingress(host("*"), "/", "wildcard"),
		"exact":    ingress(host("exact"), "/", "exact"),
		"below":    ingress(host("exact"), "/env", "below"),
		"foreign":  ingress(host("foreign.class"), "/", "foreign"),
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(host("*"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Apply(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "certificate"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	})
	ingresses["wildcard"].Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host("*")}, SecretName: "certificate"}}
	ingresses["foreign"].Spec.IngressClassName = new("other")
	for name, i := range ingresses {
		p := pod(name)
		p.Labels = map[string]string{"name": name}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NAME", Value: name}}
		k.Apply(p)
		k.Apply(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Selector: p.Labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		}})
		k.Apply(i)
	}
	transport := k.IngressTransport()
	transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(certificate)
	for url, want := range map[string]string{
		"http://" + host("exact") + "/":                "exact",
		"http://" + host("exact") + "/env/NAME":        "below",
		"http://" + host("exact") + ":80/env/NAME":     "below",
		"https://" + host("other") + "/env/NAME":       "wildcard",
		"http://" + host("other") + "/env/NAME":        "wildcard",
		"http://" + host("foreign.class") + "/":        "404",
		"http://" + host("two.labels") + "/":           "404",
		"http://" + k.Namespace + ".example.com" + "/": "404",
	} {
		k.Wait(url, func(ctx context.Context) error {
			got, err := get(ctx, transport, url)
			if got == want || err != nil && strings.HasPrefix(err.Error(), want) {
				return nil
			}
			return fmt.Errorf("the response is %q, %w; want %s", got, err, want)
		})
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "ingress"}}
	k.Get(service)
	k.Eventually(ingresses["exact"], testkit.Match("the address", func(i *networkingv1.Ingress) bool {
		addresses := i.Status.LoadBalancer.Ingress
		return len(addresses) == 1 && addresses[0].IP == service.Spec.ClusterIP
	}))
	const url = "http://ingress.kube-system.svc.cluster.local"
	out, err := k.Exec("below", "main", "/program", "-host", host("exact"), "-get", url)
	if err != nil || out != "exact" {
		t.Errorf("a pod got %q, %v", out, err)
	}
}
