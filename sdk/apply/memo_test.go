package apply

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestUnusedMemosExpire checks that memos of deleted objects are dropped, and those in use are kept.
func TestUnusedMemosExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, err := NewIntent(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, scheme.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		stored := func(uid types.UID) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				UID: uid, Annotations: map[string]string{DigestAnnotation: i.Digest()},
			}}
		}
		manager := NewFieldManager("us")
		manager.MarkConverged(i, stored("used"))
		manager.MarkConverged(i, stored("gone"))
		for range 4 {
			time.Sleep(memoTTL / 3) //nolint:forbidigo // fake time of synctest
			if !manager.Converged(i, stored("used")) {
				t.Error("a memo in use was dropped")
			}
		}
		manager.MarkConverged(i, stored("new"))
		got := slices.Sorted(maps.Keys(manager.memos))
		if diff := cmp.Diff([]types.UID{"new", "used"}, got); diff != "" {
			t.Errorf("memos (-want +got):\n%s", diff)
		}
	})
}
