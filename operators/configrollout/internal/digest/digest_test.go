package digest_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
)

func content(data ...string) digest.Content {
	text := map[string]string{}
	for i := 0; i < len(data); i += 2 {
		text[data[i]] = data[i+1]
	}
	return digest.Content{Exists: true, Keys: digest.KeySums(text, nil)}
}

func ref(keys ...string) reference.Ref {
	r := reference.Ref{Kind: reference.ConfigMap, Name: "a", All: len(keys) == 0, Required: true, Keys: map[string]bool{}}
	for _, key := range keys {
		r.Keys[key] = false
	}
	return r
}

type use struct {
	namespace string
	ref       reference.Ref
	content   digest.Content
}

func (u use) source() digest.Source { return digest.NewSource(u.namespace, u.ref, u.content) }

func TestDigestEquality(t *testing.T) {
	t.Parallel()
	secret := ref()
	secret.Kind = reference.Secret
	other := ref()
	other.Name = "b"
	versioned := content("k", "1")
	versioned.Version = "17"
	for name, tc := range map[string]struct {
		a, b         use
		sameID, same bool
		reason       string
	}{
		"another version of the object": {
			a: use{"n", ref(), content("k", "1")}, b: use{"n", ref(), versioned}, sameID: true, same: true,
			reason: "labels, annotations and a new object with the old content change nothing",
		},
		"another value": {
			a: use{"n", ref(), content("k", "1")}, b: use{"n", ref(), content("k", "2")}, sameID: true,
			reason: "a changed value is a change",
		},
		"another value of a key that is not used": {
			a: use{"n", ref("k"), content("k", "1", "l", "1")}, b: use{"n", ref("k"), content("k", "1", "l", "2")},
			sameID: true, same: true, reason: "the pods never see it",
		},
		"one more key": {
			a: use{"n", ref(), content("k", "1")}, b: use{"n", ref(), content("k", "1", "l", "")}, sameID: true,
			reason: "the whole is used, and an empty file is a file",
		},
		"the same bytes in other pieces": {
			a: use{"n", ref(), content("ab", "c")}, b: use{"n", ref(), content("a", "bc")}, sameID: true,
			reason: "lengths are hashed, too",
		},
		"an optional key that is not there, and one that is empty": {
			a: use{"n", ref("k"), content()}, b: use{"n", ref("k"), content("k", "")}, sameID: true,
			reason: "a variable that is not set is not one that is empty",
		},
		"an object that is not there, and one that is empty": {
			a: use{"n", ref(), digest.Content{}}, b: use{"n", ref(), content()}, sameID: true,
			reason: "to appear is a change",
		},
		"another namespace": {
			a: use{"n", ref(), content("k", "1")}, b: use{"m", ref(), content("k", "1")}, reason: "it is another object",
		},
		"another kind": {
			a: use{"n", ref(), content("k", "1")}, b: use{"n", secret, content("k", "1")},
			reason: "it is another object",
		},
		"another name": {
			a: use{"n", ref(), content("k", "1")}, b: use{"n", other, content("k", "1")},
			reason: "it is another object",
		},
		"the same letters in other names": {
			a: use{"nb", reference.Ref{Kind: "ConfigMap", Name: "b", All: true}, content("k", "1")},
			b: use{"n", reference.Ref{Kind: "ConfigMap", Name: "bb", All: true}, content("k", "1")}, reason: "lengths are hashed",
		},
		"more keys used": {
			a: use{"n", ref("k"), content("k", "1", "l", "1")}, b: use{"n", ref("k", "l"), content("k", "1", "l", "1")},
			reason: "the set of used keys is part of the ID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := tc.a.source(), tc.b.source()
			if got := a.ID == b.ID; got != tc.sameID {
				t.Errorf("%s: the same ID: %v", tc.reason, got)
			}
			if got := a.ID == b.ID && a.Sum == b.Sum; got != tc.same {
				t.Errorf("%s: the same sum: %v", tc.reason, got)
			}
			if got := digest.Total([]digest.Source{a}) == digest.Total([]digest.Source{b}); got != tc.same {
				t.Errorf("%s: the same digest: %v", tc.reason, got)
			}
		})
	}
}

// The digest of a content must never change: a new version of the operator would roll every workload.
func TestDigestsAreStable(t *testing.T) {
	t.Parallel()
	source := use{"default", ref(), content("nginx.conf", "events {}\n")}.source()
	const want = "sha256:a71b63650070d1b14f81c1d818e7c31465fc90ad8ca5cdfe0793743856dc558b"
	if got := digest.Total([]digest.Source{source}); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
}

func TestBinaryData(t *testing.T) {
	t.Parallel()
	text, bytes := digest.KeySums(map[string]string{"k": "v"}, nil), digest.KeySums(nil, map[string][]byte{"k": []byte("v")})
	if text["k"] != bytes["k"] {
		t.Error("the same file from data and from binaryData is not the same")
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	required := ref("k")
	required.Keys["k"] = true
	optional := ref()
	optional.Required = false
	for name, tc := range map[string]struct {
		use  use
		want string
	}{
		"an object":          {use{"n", ref(), digest.Content{}}, "ConfigMap/a"},
		"an optional object": {use{"n", optional, digest.Content{}}, ""},
		"a key":              {use{"n", required, content()}, "ConfigMap/a key k"},
		"an optional key":    {use{"n", ref("k"), content()}, ""},
		"nothing":            {use{"n", required, content("k", "")}, ""},
	} {
		if got := tc.use.source().Missing; got != tc.want {
			t.Errorf("%s: %q is missing, want %q", name, got, tc.want)
		}
	}
}
