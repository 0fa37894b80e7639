// Package authority makes and renews the serving certificate of a webhook server.
//
// The certificate authorities are in a Secret that all replicas share. Each replica signs a serving certificate of its own,
// which it keeps in memory, and writes the authorities into the objects that tell the API server of the webhooks. A new
// authority signs only when the API servers have had time to learn of it, so that no request fails during a renewal.
package authority

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The delays after a failure.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Authority is the certificate of one server. Its fields must not change after Run was called.
type Authority struct {
	Client   client.WithWatch // without a cache
	Log      logr.Logger
	Secret   types.NamespacedName
	Name     string        // of the field manager
	DNSNames []string      // of the server, at least one
	Lifetime time.Duration // of an authority
	Targets  []Target

	mu      sync.Mutex
	serving *tls.Certificate
	err     error // of the last attempt; nil before the first
}

var errPending = errors.New("the certificate is not there yet")

// Certificate returns the certificate for a TLS handshake.
func (a *Authority) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.serving == nil {
		return nil, errPending
	}
	return a.serving, nil
}

// Ready returns nil if the server has a certificate, and the API server knows its authority.
func (a *Authority) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil && a.serving == nil {
		return errPending
	}
	return a.err
}

// Run maintains the certificate until the context ends.
func (a *Authority) Run(ctx context.Context) {
	changed := a.watch(ctx)
	retry := firstRetry
	for ctx.Err() == nil {
		next, err := a.maintain(ctx)
		wait := time.Until(next)
		if err != nil && ctx.Err() == nil {
			a.Log.Error(err, "The certificate of the webhooks is not maintained", "retryIn", retry.String())
			wait, retry = retry, min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		a.mu.Lock()
		a.err = err
		a.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(max(wait, time.Millisecond)):
		}
	}
}

// maintain brings the Secret, the serving certificate and the targets into the state that is needed now. It returns the time
// at which that changes.
func (a *Authority) maintain(ctx context.Context) (next time.Time, err error) {
	cas, err := a.authorities(ctx)
	if err != nil {
		return next, err
	}
	now := time.Now()
	certificates := bundle(cas)
	if err := a.sign(signer(cas, now)); err != nil {
		return next, err
	}
	var errs []error
	for _, target := range a.Targets {
		errs = append(errs, a.inject(ctx, target, certificates))
	}
	return nextChange(cas, now), errors.Join(errs...)
}

// authorities returns the content of the Secret, after it has renewed it if necessary.
func (a *Authority) authorities(ctx context.Context) ([]ca, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Secret.Namespace, Name: a.Secret.Name}}
	err := a.Client.Get(ctx, a.Secret, secret)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading Secret %s: %w", a.Secret, err)
	}
	var cas []ca
	if len(secret.Data[certificatesKey]) > 0 {
		if cas, err = decode(secret.Data); err != nil {
			a.Log.Error(err, "The certificate authority is unusable and is replaced", "secret", a.Secret.String())
		}
	}
	cas, changed, err := renewed(cas, a.Name, time.Now(), a.Lifetime)
	if err != nil || !changed {
		return cas, err
	}
	data, err := encode(cas)
	if err != nil {
		return nil, err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	maps.Copy(secret.Data, data)
	if exists { // fails if another replica was faster
		err = a.Client.Update(ctx, secret, client.FieldOwner(a.Name))
	} else {
		err = a.Client.Create(ctx, secret, client.FieldOwner(a.Name))
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return a.authorities(ctx)
	case err != nil && !exists:
		return nil, fmt.Errorf("creating Secret %s, which does not exist: %w", a.Secret, err)
	case err != nil:
		return nil, fmt.Errorf("writing Secret %s: %w", a.Secret, err)
	}
	a.Log.Info("Certificate authority renewed", "secret", a.Secret.String(), "until", cas[0].cert.NotAfter)
	return cas, nil
}

// sign replaces the serving certificate unless it is signed by this authority.
func (a *Authority) sign(by ca) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.serving != nil && a.serving.Leaf.CheckSignatureFrom(by.cert) == nil {
		return nil
	}
	made, err := by.serving(a.DNSNames)
	if err != nil {
		return err
	}
	a.serving = made
	return nil
}
