package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/util/keyutil"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// certificateLifetime is far longer than the life of a control plane in a temporary folder.
const certificateLifetime = 365 * 24 * time.Hour

// certificate is a serving certificate and its own authority. It has elliptic keys: the RSA keys that
// kube-apiserver makes by default would take a noticeable part of its start.
type certificate struct {
	cert []byte // PEM
	key  []byte // PEM

	template *x509.Certificate
	signer   *ecdsa.PrivateKey
}

func newCertificate() (certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("making a serving key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "testkit"},
		NotBefore:             now.Add(-time.Hour), // clocks of containers and their host may differ
		NotAfter:              now.Add(certificateLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // of those it signs
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.ParseIP(host), net.ParseIP(spec.HubAddress), net.ParseIP(spec.Kubernetes)},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate{}, fmt.Errorf("making a serving certificate: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return certificate{}, fmt.Errorf("encoding the serving key: %w", err)
	}
	return certificate{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: keyPEM, template: template, signer: key,
	}, nil
}

// client returns a client certificate of this authority, and its key, for the API server as a client of kubelets.
func (c *certificate) client(name string, groups ...string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: new(big.Int).Add(c.template.SerialNumber, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    c.template.NotBefore, NotAfter: c.template.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.template, private.Public(), c.signer)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client certificate: %w", err)
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		return nil, nil, fmt.Errorf("encoding a client key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, nil
}

// writeFiles writes name -> content, readable by the owner only.
func writeFiles(files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return fmt.Errorf("writing a file of the control plane: %w", err)
		}
	}
	return nil
}
