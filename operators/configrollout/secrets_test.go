package configrollout_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
	"github.com/homeostat-dev/homeostat/testkit"
)

// startWithSecrets runs the operator with --secrets as administrator: the roles of config/rbac do not permit Secrets.
func startWithSecrets(t *testing.T, k *testkit.K) *testkit.Instance {
	t.Helper()
	return k.Run(newOperator(t, func(o *configrollout.Options) {
		o.Secrets = true
		o.KeyNamespace = k.Namespace
	}), testkit.WithConfig(k.Config))
}

func secret(name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{key: []byte(value)}}
}

// withSecret returns a Deployment that uses a ConfigMap and a Secret.
func withSecret(name, configMap, secret string) *appsv1.Deployment {
	d := deployment(name, configMap)
	d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}},
	}}
	return d
}

// otherKey checks that the record has a digest with another key than before.
func otherKey(before string) testkit.Check {
	return testkit.Match("recorded with another key", func(d *appsv1.Deployment) bool {
		id := digest.KeyID(observedDigest(d))
		return id != "" && id != digest.KeyID(before)
	})
}

// guesses returns the digests without a key of a guessed content, as a reader of annotations can compute them.
func guesses(namespace string, d *appsv1.Deployment, value string) map[string]string {
	sum := sha256.Sum256([]byte(value))
	all := map[string]string{
		"the hash": hex.EncodeToString(sum[:]), "the hash in base64": base64.StdEncoding.EncodeToString(sum[:]),
	}
	var sources []digest.Source
	for _, ref := range reference.Collect(&d.Spec.Template, reference.Options{}) {
		content := digest.Content{Exists: true, Keys: digest.KeySums(map[string]string{"a": "1"}, nil)}
		if ref.Kind == reference.Secret {
			content.Keys = digest.KeySums(map[string]string{"pin": value}, nil)
		}
		s := digest.NewSource(namespace, ref, content)
		sources = append(sources, s)
		if ref.Kind == reference.Secret {
			all["the sum of the source"] = s.Sum
		}
	}
	all["the digest"] = strings.TrimPrefix(digest.Total(sources), "sha256:")
	return all
}

// A reader of all workloads who may read no Secret cannot compare a guess of its content with any annotation.
func TestDigestsOfSecretsCannotBeGuessed(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	startWithSecrets(t, k)
	k.Apply(configMap("conf", "a", "1"))
	pin := secret("pin", "pin", "1234")
	k.Apply(pin)
	d := withSecret("a", "conf", "pin")
	adopt(k, d)
	seen := map[string]string{}
	remember := func(o metav1.Object) {
		for name, value := range o.GetAnnotations() {
			seen[o.GetName()+" "+name+" "+value] = value
		}
	}
	for _, value := range []string{"1234", "5678"} {
		if value != "1234" {
			before := digestOf(d)
			k.Update(pin, func() { pin.Data["pin"] = []byte(value) })
			k.Eventually(d, rolledFrom(before), result("Completed"))
		}
		remember(d)
		remember(&d.Spec.Template)
		for name, guess := range guesses(k.Namespace, d, value) {
			for where, text := range seen {
				if strings.Contains(text, guess) {
					t.Errorf("%s of %s is in annotation %s", name, value, where)
				}
			}
		}
	}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: digest.KeySecret}}
	if k.Get(key); len(key.Data["key"]) != 32 || key.Immutable == nil || !*key.Immutable {
		t.Errorf("the key has %d bytes, immutable: %v", len(key.Data["key"]), key.Immutable)
	}
}

// The first start after an upgrade from digests without a key rolls nothing, and writes nothing to users of ConfigMaps
// alone.
func TestUpgradeToKeyedDigests(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(configMap("conf", "a", "1"))
	pin := secret("pin", "a", "1")
	k.Apply(pin)
	d, plain := withSecret("a", "conf", "pin"), deployment("plain", "conf")
	for _, d := range []*appsv1.Deployment{d, plain} {
		refs := reference.Collect(&d.Spec.Template, reference.Options{})
		var sources []digest.Source
		for _, ref := range refs {
			content := digest.Content{Exists: true, Keys: digest.KeySums(map[string]string{"a": "1"}, nil)}
			sources = append(sources, digest.NewSource(k.Namespace, ref, content))
		}
		record := annotation.Record{
			Observed: digest.Total(sources), Sources: digest.Sums(sources), References: digest.References(refs),
		}
		for name, value := range record.Changes(nil) {
			d.Annotations[name] = *value
		}
		k.Apply(d)
	}
	before := observedDigest(d)
	op := startWithSecrets(t, k)
	k.Eventually(d, adopted(), otherKey(before))
	waitIdle(k, op)
	k.Get(plain)
	if k.Get(d); digestOf(d) != "" || digestOf(plain) != "" {
		t.Error("it is rolled")
	}
	for _, w := range writes(op) {
		if w.Name == "plain" {
			t.Errorf("it writes %v", w)
		}
	}
	k.Update(pin, func() { pin.Data["a"] = []byte("2") })
	k.Eventually(d, rolledFrom(""), result("Completed"))
}

// After the loss of the key no workload is rolled, except one with a pending rollout. Later changes are found.
func TestLostKey(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := startWithSecrets(t, k)
	k.Apply(configMap("conf", "a", "1"))
	pin, other := secret("pin", "a", "1"), secret("other", "a", "1")
	k.Apply(pin)
	k.Apply(other)
	d, waiting := withSecret("a", "conf", "pin"), withSecret("waiting", "conf", "other")
	adopt(k, d, waiting)
	k.Update(pin, func() { pin.Data["a"] = []byte("2") })
	k.Eventually(d, rolledFrom(""), result("Completed"))
	k.Update(waiting, func() { waiting.Spec.Paused = true })
	k.Update(other, func() { other.Data["a"] = []byte("2") })
	k.Eventually(waiting, isPending(), state("Paused"))
	op.Stop()
	before, rolled := observedDigest(d), lastRollout(t, d).Time
	k.Delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: digest.KeySecret}})
	op = startWithSecrets(t, k)
	k.Eventually(d, otherKey(before))
	waitIdle(k, op)
	if k.Get(d); lastRollout(t, d).Time != rolled || digestOf(d) != before {
		t.Errorf("it is rolled to %s", digestOf(d))
	}
	k.Update(waiting, func() { waiting.Spec.Paused = false })
	k.Eventually(waiting, rolledFrom(""), result("Completed"))
	k.Update(pin, func() { pin.Data["a"] = []byte("3") })
	k.Eventually(d, rolledFrom(before), result("Completed"))
}

// A Secret with the name of the key that has no key is no key. The workload is not rolled meanwhile.
func TestInvalidKey(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(secret(digest.KeySecret, "key", "short"))
	k.Apply(configMap("conf", "a", "1"))
	k.Apply(secret("pin", "a", "1"))
	op := startWithSecrets(t, k)
	plain, d := deployment("plain", "conf"), withSecret("a", "conf", "pin")
	k.Apply(d)
	adopt(k, plain)
	k.Wait("three attempts to read the key", func(context.Context) error {
		n := 0
		for _, r := range op.Requests() {
			if r.Name == digest.KeySecret {
				n++
			}
		}
		if n < 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	if k.Get(d); observedDigest(d) != "" {
		t.Errorf("it is adopted with %s", observedDigest(d))
	}
	k.Delete(secret(digest.KeySecret, "key", "short"))
	k.Eventually(d, adopted())
}
