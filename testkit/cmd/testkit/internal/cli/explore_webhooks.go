package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// webhooksFile is the name of the file with the webhook configurations.
const webhooksFile = "webhooks.json"

// readWebhooks reads the webhook configurations among the objects in files.
func readWebhooks(paths []string) (configs []*unstructured.Unstructured, err error) {
	for _, path := range paths {
		objects, err := scenario.ReadObjects(path)
		if err != nil {
			return nil, firstOf(err)
		}
		before := len(configs)
		for _, object := range objects {
			if webhookconfig.IsConfiguration(object) {
				configs = append(configs, object)
			}
		}
		if len(configs) == before {
			return nil, fmt.Errorf("--webhooks=%s: it has neither a ValidatingWebhookConfiguration nor a "+
				"MutatingWebhookConfiguration: name the file that has one", path)
		}
	}
	return configs, nil
}

// programWebhooks are the webhooks of the explored program.
type programWebhooks struct {
	names     string // of the configurations
	certDir   string
	transport *http.Transport
}

// newProgramWebhooks makes the certificate of all processes.
func newProgramWebhooks(configs []*unstructured.Unstructured, folder string) (*programWebhooks, error) {
	w := &programWebhooks{certDir: filepath.Join(folder, "webhook-certificate")}
	var names []string
	for _, config := range configs {
		names = append(names, config.GetKind()+" "+config.GetName())
	}
	w.names = strings.Join(names, " and ")
	certificate, key, err := cert.GenerateSelfSignedCertKey(loopback, []net.IP{net.ParseIP(loopback)}, nil)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of the webhooks: %w", err)
	}
	if err := os.MkdirAll(w.certDir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the certificate of the webhooks: %w", err)
	}
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(w.certDir, name), data, 0o600); err != nil {
			return nil, fmt.Errorf("writing the certificate of the webhooks: %w", err)
		}
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(certificate)
	w.transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}}
	return w, nil
}

const loopback = "127.0.0.1"

// serve makes the API server call the webhooks of the next process of a run.
func (w *programWebhooks) serve(s *space.Space) (explore.Webhooks, error) {
	l, err := new(net.ListenConfig).Listen(s.Context(), "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return explore.Webhooks{}, fmt.Errorf("looking for a free port: %w", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return explore.Webhooks{}, fmt.Errorf("looking for a free port: %w", err)
	}
	stop, err := kitadapter.ForwardWebhooks(s, &url.URL{Scheme: "https", Host: address}, w.transport)
	return explore.Webhooks{
		Names: w.names, Address: address, Stop: stop,
		Env: []string{"WEBHOOK_BIND_ADDRESS=" + address, "WEBHOOK_CERT_DIR=" + w.certDir},
	}, err
}
