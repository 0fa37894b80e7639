package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime far exceeds the lifetime of a proxy.
const lifetime = 30 * 24 * time.Hour

// certificate is the serving certificate of a proxy. Authority and server have separate certificates, as strict clients
// require. The keys are never written to disk.
type certificate struct {
	authority []byte // PEM
	serving   tls.Certificate
}

func newCertificate() (certificate, error) {
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "testkit proxy's authority"},
		NotBefore:             now.Add(-time.Hour), // clocks of containers and their host may differ
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("making the key of the proxy's authority: %w", err)
	}
	authority, err = sign(authority, authority, &signer.PublicKey, signer)
	if err != nil {
		return certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("making the proxy's key: %w", err)
	}
	serving, err := sign(&x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "testkit proxy"},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.ParseIP(host)},
		DNSNames:     []string{"localhost"},
	}, authority, &key.PublicKey, signer)
	if err != nil {
		return certificate{}, err
	}
	return certificate{
		authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}),
		serving:   tls.Certificate{Certificate: [][]byte{serving.Raw}, PrivateKey: key, Leaf: serving},
	}, nil
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) (
	*x509.Certificate, error,
) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate of the proxy: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate of the proxy: %w", err)
	}
	return cert, nil
}
