package testkit_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

// States has the current state, which a watch sends later than the response of the request that caused it.
func TestStates(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	letter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}, Data: map[string]string{"text": "0"}}
	if states := k.States(letter); len(states) != 0 {
		t.Fatalf("an object that never existed has states: %v", states)
	}
	k.Apply(letter)
	want := []string{"0"}
	check := func() {
		t.Helper()
		var got []string
		for _, s := range k.States(letter) {
			if s == nil {
				got = append(got, "deleted")
				continue
			}
			data, _ := s.Object["data"].(map[string]any)
			text, _ := data["text"].(string)
			got = append(got, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("states (-want +got):\n%s", diff)
		}
	}
	check()
	for i := range 20 {
		text := strconv.Itoa(i + 1)
		k.Update(letter, func() { letter.Data["text"] = text })
		want = append(want, text)
		check()
	}
	k.Delete(letter)
	want = append(want, "deleted")
	check()
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}, Data: map[string]string{"text": "again"}})
	want = append(want, "again")
	check()
}

func TestStatesThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	contains(t, failing(t, func(fake testing.TB) {
		k := testkit.New(fake)
		k.States(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}})
	}), "the states of cluster-scoped objects, such as Namespace ", "are not recorded", "set Env.Private")
}
