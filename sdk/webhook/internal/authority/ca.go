package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The parts of the life of a certificate.
const (
	// renewal is the age, as a part of the lifetime, at which an authority gets a successor.
	renewal = 1.0 / 2
	// activation is the age at which the successor begins to sign. Until then all API servers learn of it.
	activation = 1.0 / 4
	// backdating makes a certificate valid earlier, for machines with a slow clock. It is at most an hour.
	backdating = 1.0 / 20
)

// keys of the Secret. The certificates and the keys have the same order, the newest first.
const (
	certificatesKey = "ca.crt"
	privateKeysKey  = "ca.key"
)

// A ca is a certificate authority.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// at returns the time at which this part of the certificate's lifetime has passed.
func at(c *x509.Certificate, part float64) time.Time {
	return c.NotBefore.Add(time.Duration(part * float64(c.NotAfter.Sub(c.NotBefore))))
}

// newCA returns an authority that is valid from now on.
func newCA(name string, now time.Time, lifetime time.Duration) (ca, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name + " certificate authority"},
		NotBefore:             now.Add(-min(time.Duration(backdating*float64(lifetime)), time.Hour)),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	made, err := sign(template, nil)
	if err != nil {
		return ca{}, fmt.Errorf("making a certificate authority: %w", err)
	}
	return made, nil
}

// serving returns a certificate for a server of these names, and for clients on the same machine. It is valid as long as its
// authority.
func (c ca) serving(names []string) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore:   c.cert.NotBefore,
		NotAfter:    c.cert.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	made, err := sign(template, &c)
	if err != nil {
		return nil, fmt.Errorf("making a serving certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{made.cert.Raw}, PrivateKey: made.key, Leaf: made.cert}, nil
}

// sign makes a key and a certificate that parent signs, and that signs itself if parent is nil.
func sign(template *x509.Certificate, parent *ca) (ca, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return ca{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return ca{}, err
	}
	signer := ca{cert: template, key: key}
	if parent != nil {
		signer = *parent
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, key.Public(), signer.key)
	if err != nil {
		return ca{}, err
	}
	made, err := x509.ParseCertificate(der)
	return ca{cert: made, key: key}, err
}

// renewed returns the authorities that are needed now, the newest first, and whether they differ from the given ones. A new
// authority is added at half of the life of the newest one, and authorities that have expired are removed.
func renewed(cas []ca, name string, now time.Time, lifetime time.Duration) (_ []ca, changed bool, err error) {
	var valid []ca
	for _, c := range cas {
		if now.Before(c.cert.NotAfter) {
			valid = append(valid, c)
		}
	}
	if len(valid) > 0 && now.Before(at(valid[0].cert, renewal)) {
		return valid, len(valid) != len(cas), nil
	}
	added, err := newCA(name, now, lifetime)
	return append([]ca{added}, valid...), true, err
}

// signer returns the authority that signs now: the newest one that all clients know.
func signer(cas []ca, now time.Time) ca {
	for _, c := range cas {
		if !now.Before(at(c.cert, activation)) {
			return c
		}
	}
	return cas[len(cas)-1]
}

// encode returns the content of the Secret.
func encode(cas []ca) (map[string][]byte, error) {
	var keys []byte
	for _, c := range cas {
		key, err := keyutil.MarshalPrivateKeyToPEM(c.key)
		if err != nil {
			return nil, fmt.Errorf("encoding the key of a certificate authority: %w", err)
		}
		keys = append(keys, key...)
	}
	return map[string][]byte{certificatesKey: bundle(cas), privateKeysKey: keys}, nil
}

// decode returns the authorities in a Secret.
func decode(data map[string][]byte) ([]ca, error) {
	certs, err := cert.ParseCertsPEM(data[certificatesKey])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certificatesKey, err)
	}
	rest := data[privateKeysKey]
	var cas []ca
	for _, c := range certs {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("%s has fewer keys than %s has certificates", privateKeysKey, certificatesKey)
		}
		parsed, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", privateKeysKey, err)
		}
		if !parsed.PublicKey.Equal(c.PublicKey) || !c.IsCA {
			return nil, errors.New("a certificate is not that of an authority, or not that of its key")
		}
		cas = append(cas, ca{cert: c, key: parsed})
	}
	return cas, nil
}

// bundle returns the certificates that clients trust, as PEM.
func bundle(cas []ca) []byte {
	var all []byte
	for _, c := range cas {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.cert.Raw})...)
	}
	return all
}

// nextChange returns the time of the next change of the authorities or of the one that signs.
func nextChange(cas []ca, now time.Time) time.Time {
	if active := at(cas[0].cert, activation); active.After(now) && len(cas) > 1 {
		return active
	}
	return at(cas[0].cert, renewal)
}
