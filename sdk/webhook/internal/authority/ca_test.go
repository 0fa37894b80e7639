package authority

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"
)

const year = 365 * 24 * time.Hour

// TestRenewals follows the authorities through five lifetimes. A client that learned of the authorities up to a fifth of a
// lifetime ago trusts the serving certificate at any time.
func TestRenewals(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const step = year / 100
	var (
		cas   []ca
		known [][]ca // at each step
		made  int
	)
	for now := begin; now.Before(begin.Add(5 * year)); now = now.Add(step) {
		var changed bool
		var err error
		newest := cas
		if cas, changed, err = renewed(cas, "a", now, year); err != nil {
			t.Fatal(err)
		}
		if changed && (len(newest) == 0 || !cas[0].cert.Equal(newest[0].cert)) {
			made++
		}
		if len(cas) > 3 {
			t.Fatalf("%v: %d authorities", now, len(cas))
		}
		known = append(known, cas)
		serving, err := signer(cas, now).serving([]string{"a.b.svc"})
		if err != nil {
			t.Fatal(err)
		}
		for _, lag := range []int{0, 19} {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(bundle(known[max(0, len(known)-1-lag)]))
			if _, err := serving.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "a.b.svc", CurrentTime: now}); err != nil {
				t.Errorf("%v after the start, a client with a delay of %d steps: %v", now.Sub(begin), lag, err)
			}
		}
		if next := nextChange(cas, now); next.Sub(now) > year || !next.After(now) {
			t.Errorf("%v: the next change is at %v", now, next)
		}
	}
	if made < 9 || made > 11 {
		t.Errorf("%d authorities in five years, want about ten", made)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first, err := newCA("a", now, year)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newCA("a", now, year)
	if err != nil {
		t.Fatal(err)
	}
	data, err := encode([]ca{second, first})
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(data)
	equal := func(a, b ca) bool { return a.cert.Equal(b.cert) && a.key.Equal(b.key) }
	if err != nil || !slices.EqualFunc(got, []ca{second, first}, equal) {
		t.Errorf("%d authorities, %v", len(got), err)
	}
	swapped, err := encode([]ca{first, second})
	if err != nil {
		t.Fatal(err)
	}
	one, err := encode([]ca{first})
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]map[string][]byte{
		"keys in another order":  {certificatesKey: data[certificatesKey], privateKeysKey: swapped[privateKeysKey]},
		"a key is missing":       {certificatesKey: data[certificatesKey], privateKeysKey: one[privateKeysKey]},
		"no key":                 {certificatesKey: data[certificatesKey]},
		"no certificate":         {privateKeysKey: data[privateKeysKey]},
		"no PEM":                 {certificatesKey: []byte("certificate"), privateKeysKey: []byte("key")},
		"a key in place of cert": {certificatesKey: data[privateKeysKey], privateKeysKey: data[privateKeysKey]},
	} {
		if _, err := decode(broken); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
