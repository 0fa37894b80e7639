// Package digest says in a few bytes which configuration a workload uses: equal bytes mean that nothing it uses has
// changed. It keeps no value of any key.
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

// Content is what is known of one ConfigMap or Secret: the sum of the value of each key. Its size does not depend on that
// of the values.
type Content struct {
	// Exists is false if there is no such object.
	Exists bool
	// Ignored means that the object asks for its changes to mean nothing.
	Ignored bool
	// Version is the object's resourceVersion.
	Version string
	// Keys are those of data and binaryData.
	Keys map[string]Sum
}

// Of reads the content of an object, a ConfigMap's two kinds of values or a Secret's one.
func Of(text map[string]string, bytes map[string][]byte) map[string]Sum {
	sums := make(map[string]Sum, len(text)+len(bytes))
	for key, value := range text {
		sums[key] = sha256.Sum256([]byte(value))
	}
	for key, value := range bytes {
		sums[key] = sha256.Sum256(value)
	}
	return sums
}

// Source is what a workload uses of one object.
type Source struct {
	// ID identifies what is used, the names of object and keys, but not the values: as long as it is the same, a different
	// Sum means a different content.
	ID string
	// Sum identifies the content of what is used.
	Sum string
	// Name is "Kind/name".
	Name string
	// Missing says what is not there although pods cannot start without; empty if nothing.
	Missing string
	// Version is the object's resourceVersion; empty if there is no object.
	Version string

	whole Sum
}

// NewSource is what ref uses of that content.
func NewSource(namespace string, ref reference.Ref, c Content) Source {
	s := Source{Name: ref.String(), Version: c.Version}
	use := newHash(string(ref.Kind), namespace, ref.Name)
	what := newHash(string(ref.Kind), namespace, ref.Name)
	keys := ref.KeyNames()
	if ref.All {
		use.field("*")
		keys = slices.Sorted(maps.Keys(c.Keys))
	}
	what.flag(c.Exists)
	for _, key := range keys {
		if !ref.All {
			use.field(key)
		}
		sum, ok := c.Keys[key]
		what.field(key)
		what.flag(ok)
		what.field(string(sum[:]))
	}
	s.whole = what.sum()
	id := use.sum()
	s.ID, s.Sum = short(id), short(s.whole)
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

// Total is the digest of all that a workload uses, as it stands in annotations. The order of the sources matters.
func Total(sources []Source) string {
	h := newHash("configrollout")
	for _, s := range sources {
		h.field(s.ID)
		h.field(string(s.whole[:]))
	}
	sum := h.sum()
	return "sha256:" + hex.EncodeToString(sum[:])
}

// References identifies what is referred to, and not its content.
func References(refs []reference.Ref) string {
	h := newHash("references")
	for _, ref := range refs {
		h.field(ref.String())
		h.flag(ref.All)
		for _, key := range ref.KeyNames() {
			h.field(key)
		}
	}
	return short(h.sum())
}

// Sums are the sources' sums by ID.
func Sums(sources []Source) map[string]string {
	sums := make(map[string]string, len(sources))
	for _, s := range sources {
		sums[s.ID] = s.Sum
	}
	return sums
}

// short is enough to tell a few hundred sources of one workload apart.
func short(sum Sum) string { return hex.EncodeToString(sum[:6]) }

// writer hashes fields such that no two lists of fields are the same bytes: each is preceded by its length.
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
