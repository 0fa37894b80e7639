package realnodes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Clients outside of the cluster reach the app by the host of its Ingress, as its status says, with the certificate of a
// Secret. They follow changes of the host and the path, and reach nothing without the Ingress.
func TestIngress(t *testing.T) {
	t.Parallel()
	k := start(t)
	host := func(name string) string { return name + "." + k.Namespace + ".example.com" } // the controller serves all tests
	app := newMyApp(t)
	app.Spec.Service.Enabled = true
	app.Spec.Ingress = v1.Ingress{Enabled: true, Host: host("first")}
	k.Apply(app)
	pod := ready(k, app, &corev1.Pod{})
	fetch(t, k, pod, "/write"+mount+"/text?text=content")
	transport := k.IngressTransport()
	c := &outside{k: k, client: &http.Client{Transport: transport}}

	url := func() string {
		k.Get(app)
		return app.Status.URL
	}
	c.expect(url(), pod.Name)
	c.expect("http://"+host("first")+"/file"+mount+"/text", "content")
	c.expect("http://"+host("second"), "404 Not Found")

	k.Update(app, func() { app.Spec.Ingress.Host = host("second") })
	c.expect("http://"+host("second"), pod.Name)
	c.expect("http://"+host("first"), "404 Not Found")

	k.Update(app, func() { app.Spec.Ingress.Path = "/file" })
	c.expect("http://"+host("second")+"/file"+mount+"/text", "content")
	c.expect("http://"+host("second"), "404 Not Found")

	certificate, key, err := cert.GenerateSelfSignedCertKey(host("second"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Apply(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "certificate"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	})
	transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(certificate)
	k.Update(app, func() {
		app.Spec.Ingress.Path = "/"
		app.Spec.Ingress.TLSSecretName = "certificate"
	})
	k.Eventually(app, testkit.Match("the URL", func(app *v1.MyApp) bool {
		return app.Status.URL == "https://"+host("second")+"/"
	}))
	c.expect(app.Status.URL, pod.Name)

	k.Update(app, func() { app.Spec.Ingress = v1.Ingress{} })
	k.Eventually(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}, testkit.Gone())
	c.expect("http://"+host("second"), "404 Not Found")
	k.Eventually(app, testkit.Ready())
	expectStarts(t, k, pod) // none of this concerns the pod
}

// outside is a client outside of the cluster.
type outside struct {
	k      *testkit.K
	client *http.Client
}

// expect waits for a response with this body, or with this status if that is not 200.
func (o *outside) expect(url, want string) {
	o.k.Wait(url, func(ctx context.Context) error {
		got, err := o.get(ctx, url)
		if err == nil && got != want {
			err = fmt.Errorf("the response is %q, want %q", got, want)
		}
		return err
	})
}

func (o *outside) get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := o.client.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		body = []byte(response.Status)
	}
	return string(body), errors.Join(err, response.Body.Close())
}
