package mailbox_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

func inNamespace(k *testkit.K) client.ListOption { return client.InNamespace(k.Namespace) }

// A certificate from files, as of cert-manager, is used, and read again when the files change.
func TestCertificateFromFiles(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	folder := t.TempDir()
	write := func() (certificate []byte) {
		certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
			temporary := filepath.Join(folder, "."+name)
			if err := os.WriteFile(temporary, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(temporary, filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
		return certificate
	}
	address, probes := freeAddress(t), freeAddress(t)
	install(t, k, address, write())
	p := start(t, k, "--webhook-bind-address="+address, "--webhook-cert-dir="+folder, "--health-probe-bind-address="+probes)
	ready(k, p, probes)
	awaitDenied(k)
	if got := strings.Count(p.output(), "Webhooks use the certificate in a folder"); got != 1 {
		t.Errorf("the mode is logged %d times", got)
	}
	certs, err := cert.ParseCertsPEM(write())
	if err != nil {
		t.Fatal(err)
	}
	k.Wait("the program has read the files again", func(ctx context.Context) error {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if !conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Equal(certs[0]) {
			return errors.New("it serves the old certificate")
		}
		return nil
	})
}
