package digest

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KeySecret is the name of the Secret with the key.
const KeySecret = "configrollout-digest-key" //nolint:gosec // it is a name

const (
	// keyEntry is the name of the key in the data of the Secret.
	keyEntry = "key"
	// keySize is the size of a key in bytes.
	keySize = sha256.Size
	// keyedPrefix is the beginning of a digest with a key. The ID of the key follows.
	keyedPrefix = "hmac:"
)

// Key is the secret key of the digests of Secrets. Digests are in annotations, which users without permission for Secrets
// may read. Without the key they cannot compare a guess with a digest.
type Key struct{ secret []byte }

// NewKey returns a random key.
func NewKey() Key {
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // it never fails
	return Key{secret}
}

// ID identifies the key in digests.
func (k Key) ID() string {
	sum := k.sum([]byte("ID of the key"))
	return hex.EncodeToString(sum[:4])
}

func (k Key) sum(value []byte) (s Sum) {
	h := hmac.New(sha256.New, k.secret)
	_, _ = h.Write(value)
	copy(s[:], h.Sum(nil))
	return s
}

// KeySums hashes the values of a Secret.
func (k Key) KeySums(data map[string][]byte) map[string]Sum {
	sums := make(map[string]Sum, len(data))
	for name, value := range data {
		sums[name] = k.sum(value)
	}
	return sums
}

// KeyID returns the ID of the key of a digest; empty if it has none. Digests with different keys are not comparable.
func KeyID(digest string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(digest, keyedPrefix), ":")
	if !strings.HasPrefix(digest, keyedPrefix) {
		return ""
	}
	return id
}

// KeyStore reads the key from a Secret, and creates that Secret if there is none. All replicas of the operator have the same
// key. It reads the key once, so that a later deletion of the Secret takes effect at the next start. It is safe for
// concurrent use.
type KeyStore struct {
	Reader client.Reader
	// Writer is nil if the Secret must not be created. Then a key that is not stored is used instead.
	Writer client.Writer
	// Namespace is the namespace of the Secret.
	Namespace string

	mu  sync.Mutex
	key *Key
}

// Key returns the key.
func (s *KeyStore) Key(ctx context.Context) (Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return *s.key, nil
	}
	key, err := s.read(ctx)
	if apierrors.IsNotFound(err) {
		key, err = s.create(ctx)
	}
	if apierrors.IsAlreadyExists(err) { // another replica was faster
		key, err = s.read(ctx)
	}
	if err != nil {
		return Key{}, fmt.Errorf("reading the key of the digests from Secret %s/%s: %w", s.Namespace, KeySecret, err)
	}
	s.key = &key
	return key, nil
}

func (s *KeyStore) read(ctx context.Context) (Key, error) {
	secret := &corev1.Secret{}
	if err := s.Reader.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: KeySecret}, secret); err != nil {
		return Key{}, err
	}
	if len(secret.Data[keyEntry]) < keySize {
		return Key{}, fmt.Errorf("data.%s has less than %d bytes: delete the Secret, and the operator creates another one",
			keyEntry, keySize)
	}
	return Key{secret.Data[keyEntry]}, nil
}

func (s *KeyStore) create(ctx context.Context) (Key, error) {
	key := NewKey()
	if s.Writer == nil {
		return key, nil
	}
	return key, s.Writer.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: KeySecret},
		Data:       map[string][]byte{keyEntry: key.secret},
		Immutable:  new(true),
	})
}
