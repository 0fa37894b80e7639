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

// What an Owner remembers of objects that are gone must not add up, and nobody tells it which are. What is looked at now and
// then is not forgotten.
func TestOwnerForgetsWhatNobodyAsksAbout(t *testing.T) {
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
		owner := NewManager("us")
		owner.MarkConverged(i, stored("used"))
		owner.MarkConverged(i, stored("gone"))
		for range 4 {
			time.Sleep(memoLimit / 3) //nolint:forbidigo // in the bubble's own time
			if !owner.Converged(i, stored("used")) {
				t.Error("what is in use is forgotten")
			}
		}
		owner.MarkConverged(i, stored("new"))
		got := slices.Sorted(maps.Keys(owner.memos))
		if diff := cmp.Diff([]types.UID{"new", "used"}, got); diff != "" {
			t.Errorf("what is remembered (-want +got):\n%s", diff)
		}
	})
}
