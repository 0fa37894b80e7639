package digest_test

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
)

// fleet has every ConfigMap, with that number of keys in a namespace, and counts the reads of each.
type fleet struct {
	client.Reader

	keys  map[string]int
	reads map[types.NamespacedName]int
}

func (f *fleet) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	o.SetUID(types.UID(key.String()))
	o.SetResourceVersion("1")
	if cm, ok := o.(*corev1.ConfigMap); ok {
		f.reads[key]++
		cm.Data = make(map[string]string, f.keys[key.Namespace])
		for i := range f.keys[key.Namespace] {
			cm.Data[strconv.Itoa(i)] = ""
		}
	}
	return nil
}

// One namespace with many large ConfigMaps does not displace the hashes of the others from memory, and the hashes of a
// ConfigMap with very many keys are not kept at all.
func TestCacheIsShared(t *testing.T) {
	t.Parallel()
	f := &fleet{keys: map[string]int{"victim": 10, "eve": 10_000, "huge": 100_000}, reads: map[types.NamespacedName]int{}}
	s := digest.NewStore(digest.Options{
		Cached: f, Live: f, Ignored: func(map[string]string) (bool, error) { return false, nil },
	})
	read := func(namespace, name string) {
		t.Helper()
		ref := reference.Ref{Kind: reference.ConfigMap, Name: name, All: true}
		if _, err := s.Content(t.Context(), namespace, ref, digest.TrustCache); err != nil {
			t.Fatal(err)
		}
	}
	read("victim", "a")
	for i := range 60 {
		read("eve", strconv.Itoa(i))
	}
	for range 2 {
		read("huge", "a")
		read("victim", "a")
		read("eve", "59")
	}
	read("eve", "0")
	for name, want := range map[string]int{"victim/a": 1, "huge/a": 2, "eve/59": 1, "eve/0": 2} {
		for key, got := range f.reads {
			if key.String() == name && got != want {
				t.Errorf("%s was read %d times, want %d", name, got, want)
			}
		}
	}
}
