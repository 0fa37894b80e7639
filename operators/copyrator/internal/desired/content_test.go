package desired_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/desired"
)

// The digest has the keys of the content and none of its values, and differs if a value differs.
func TestContentDigest(t *testing.T) {
	t.Parallel()
	of := func(value string) desired.ContentDigest {
		return desired.NewContentDigest(&corev1.Secret{Type: "Opaque", Data: map[string][]byte{"password": []byte(value)}})
	}
	a, b := of("one"), of("two")
	standIn, ok := a.Content.(*corev1.Secret)
	if !ok || len(standIn.Data) != 1 || standIn.Type != "Opaque" || len(standIn.Data["password"]) != 64 {
		t.Errorf("the stand-in is %v", a.Content)
	}
	if a.Sum == b.Sum || a.Sum != of("one").Sum {
		t.Errorf("the sums are %s, %s and %s", a.Sum, b.Sum, of("one").Sum)
	}
	for _, secretType := range []corev1.SecretType{
		"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1",
	} {
		if x := desired.NewContentDigest(&corev1.Secret{Type: secretType}); !strings.Contains(x.NeverReason, string(secretType)) {
			t.Errorf("Secrets of type %s are copied", secretType)
		}
	}
}
