// Package digest computes a digest of the configuration that a workload uses. An equal digest means that nothing changed.
// It keeps no values.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
)

// Sum is the SHA-256 sum of one value.
type Sum [sha256.Size]byte

// Content is a ConfigMap or Secret with a hash of each value. Its size does not depend on the size of the values.
type Content struct {
	// Exists is false if there is no such object.
	Exists bool
	// Ignored means that the object has the ignore annotation. IgnoreErr means that its value cannot be read.
	Ignored   bool
	IgnoreErr error
	// Version is the object's resourceVersion.
	Version string
	// Keys are the keys of data and binaryData.
	Keys map[string]Sum
	// KeyID identifies the [Key] of the sums; empty for a ConfigMap.
	KeyID string
}

// KeySums hashes the values of a ConfigMap. Its readers may read the workloads, too. For Secrets see [Key.KeySums].
func KeySums(text map[string]string, bytes map[string][]byte) map[string]Sum {
	sums := make(map[string]Sum, len(text)+len(bytes))
	for key, value := range text {
		sums[key] = sha256.Sum256([]byte(value))
	}
	for key, value := range bytes {
		sums[key] = sha256.Sum256(value)
	}
	return sums
}

// Source is the part of one object that a workload uses.
type Source struct {
	// ID identifies the object and the used keys, but not the values. With the same ID, another Sum means another content.
	ID string
	// Sum identifies the used content.
	Sum string
	// Name is "Kind/name".
	Name string
	// Missing names a missing object or key without which pods cannot start; empty if none.
	Missing string
	// Version is the object's resourceVersion; empty if there is no object.
	Version string
	// KeyID identifies the [Key] of Sum; empty for a ConfigMap.
	KeyID string

	fullSum Sum
}

// NewSource returns the source for a reference to that content.
func NewSource(namespace string, ref reference.Ref, c Content) Source {
	s := Source{Name: ref.String(), Version: c.Version, KeyID: c.KeyID}
	idHash := newHash(string(ref.Kind), namespace, ref.Name)
	contentHash := newHash(string(ref.Kind), namespace, ref.Name)
	keys := ref.KeyNames()
	if ref.All {
		idHash.field("*")
		keys = slices.Sorted(maps.Keys(c.Keys))
	}
	contentHash.flag(c.Exists)
	for _, key := range keys {
		if !ref.All {
			idHash.field(key)
		}
		sum, ok := c.Keys[key]
		contentHash.field(key)
		contentHash.flag(ok)
		contentHash.field(string(sum[:]))
	}
	s.fullSum = contentHash.sum()
	id := idHash.sum()
	s.ID = shortSum(id)
	s.Sum = shortSum(s.fullSum)
	s.Missing = missing(ref, c)
	return s
}

func missing(ref reference.Ref, c Content) string {
	if !c.Exists {
		if ref.Required {
			return ref.String()
		}
		return ""
	}
	for _, key := range ref.KeyNames() {
		if _, ok := c.Keys[key]; !ok && ref.Keys[key] {
			return ref.String() + " key " + key
		}
	}
	return ""
}

// Total returns the digest of all sources, as it is written to annotations. It depends on the order of the sources. It
// begins with the ID of the key if there is one: see [KeyID].
func Total(sources []Source) string {
	h := newHash("configrollout")
	prefix := "sha256:"
	for _, s := range sources {
		if s.KeyID != "" {
			prefix = keyedPrefix + s.KeyID + ":"
		}
		h.field(s.ID)
		h.field(string(s.fullSum[:]))
	}
	sum := h.sum()
	return prefix + hex.EncodeToString(sum[:])
}

// References returns a hash of the references without their content.
func References(refs []reference.Ref) string {
	h := newHash("references")
	for _, ref := range refs {
		h.field(ref.String())
		h.flag(ref.All)
		for _, key := range ref.KeyNames() {
			h.field(key)
		}
	}
	return shortSum(h.sum())
}

// Sums returns the sums of the sources by ID.
func Sums(sources []Source) map[string]string {
	sums := make(map[string]string, len(sources))
	for _, s := range sources {
		sums[s.ID] = s.Sum
	}
	return sums
}

// shortSum shortens a hash. It is long enough for a few hundred sources of one workload.
func shortSum(sum Sum) string { return hex.EncodeToString(sum[:6]) }

// writer hashes fields with a length prefix, so that different lists of fields have different hashes.
type writer struct{ hash.Hash }

func newHash(fields ...string) writer {
	w := writer{sha256.New()}
	for _, f := range fields {
		w.field(f)
	}
	return w
}

func (w writer) field(f string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(f)))
	_, _ = w.Write(length[:])
	_, _ = w.Write([]byte(f))
}

func (w writer) flag(b bool) {
	if b {
		w.field("yes")
		return
	}
	w.field("no")
}

func (w writer) sum() (s Sum) {
	copy(s[:], w.Sum(nil))
	return s
}
