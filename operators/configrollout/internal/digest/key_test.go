package digest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
)

// vault has at most one Secret.
type vault struct {
	client.Reader
	client.Writer

	secret *corev1.Secret
	// beforeCreate is called before a creation.
	beforeCreate func()
	reads        int
}

var secrets = schema.GroupResource{Resource: "secrets"}

func (v *vault) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	v.reads++
	if v.secret == nil || key.Namespace != "operators" || key.Name != digest.KeySecret {
		return apierrors.NewNotFound(secrets, key.Name)
	}
	v.secret.DeepCopyInto(o.(*corev1.Secret))
	return nil
}

func (v *vault) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if v.beforeCreate != nil {
		v.beforeCreate()
	}
	if v.secret != nil {
		return apierrors.NewAlreadyExists(secrets, o.GetName())
	}
	v.secret = o.(*corev1.Secret).DeepCopy()
	return nil
}

func keyID(t *testing.T, s *digest.KeyStore) string {
	t.Helper()
	key, err := s.Key(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return key.ID()
}

// All replicas have the same key, also if they start at once. It is read once.
func TestOneKey(t *testing.T) {
	t.Parallel()
	v := &vault{}
	first := &digest.KeyStore{Reader: v, Writer: v, Namespace: "operators"}
	second := &digest.KeyStore{Reader: v, Writer: v, Namespace: "operators"}
	var want string
	v.beforeCreate = func() {
		v.beforeCreate = nil
		want = keyID(t, first)
	}
	if got := keyID(t, second); got != want || len(got) != 8 {
		t.Errorf("two replicas have the keys %s and %s", want, got)
	}
	reads := v.reads
	if got := keyID(t, second); got != want || v.reads != reads {
		t.Errorf("the second time the key is %s, after %d reads", got, v.reads-reads)
	}
	if got := keyID(t, &digest.KeyStore{Reader: v, Namespace: "operators"}); got != want {
		t.Errorf("a dry run has the key %s, want %s", got, want)
	}
}

// A dry run creates no Secret.
func TestKeyOfADryRun(t *testing.T) {
	t.Parallel()
	v := &vault{}
	s := &digest.KeyStore{Reader: v, Namespace: "operators"}
	first, second := keyID(t, s), keyID(t, s)
	if first != second || v.secret != nil {
		t.Errorf("the key changes, or Secret %v exists", v.secret)
	}
}

// A Secret without a usable key is an error that says how to go on.
func TestShortKey(t *testing.T) {
	t.Parallel()
	v := &vault{secret: &corev1.Secret{Data: map[string][]byte{"key": make([]byte, 31)}}}
	_, err := (&digest.KeyStore{Reader: v, Writer: v, Namespace: "operators"}).Key(t.Context())
	const want = "operators/configrollout-digest-key: data.key has less than 32 bytes: delete"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v", err)
	}
}

// Without the key there are no digests.
func TestNoKey(t *testing.T) {
	t.Parallel()
	forbidden := errors.New("forbidden")
	s := digest.NewStore(digest.Options{Live: &cluster{}, Key: func(context.Context) (digest.Key, error) {
		return digest.Key{}, forbidden
	}})
	_, err := s.Content(t.Context(), "n", reference.Ref{Kind: reference.Secret, Name: "a"}, digest.ReadLive)
	if !errors.Is(err, forbidden) {
		t.Errorf("the error is %v", err)
	}
}

// Digests with a key depend on it, and name it.
func TestKeyedDigests(t *testing.T) {
	t.Parallel()
	a, b := digest.NewKey(), digest.NewKey()
	data := map[string][]byte{"k": []byte("1")}
	total := func(k digest.Key) string {
		secret := reference.Ref{Kind: reference.Secret, Name: "a", All: true}
		keyed := digest.Content{Exists: true, Keys: k.KeySums(data), KeyID: k.ID()}
		return digest.Total([]digest.Source{
			use{"n", ref(), content("k", "1")}.source(),
			use{"n", secret, keyed}.source(),
		})
	}
	if a.KeySums(data)["k"] == digest.KeySums(nil, data)["k"] || a.KeySums(data)["k"] == b.KeySums(data)["k"] {
		t.Error("the sum does not depend on the key")
	}
	if digest.KeyID(total(a)) != a.ID() || digest.KeyID(total(b)) != b.ID() || a.ID() == b.ID() {
		t.Errorf("the digests are %s and %s", total(a), total(b))
	}
	for _, text := range []string{"", "sha256:abc", "none"} {
		if id := digest.KeyID(text); id != "" {
			t.Errorf("%q has the key %q", text, id)
		}
	}
}
