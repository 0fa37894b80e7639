package oracle_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
)

func TestBeforeLateWrite(t *testing.T) {
	t.Parallel()
	selects := oracle.BeforeLateWrite([]intercept.Call{
		{UID: "a", Version: "9"}, {Late: true}, {UID: "a", Version: "11", Late: true}, {UID: "a", Version: "12", Late: true},
	})
	var got []string
	for _, uid := range []types.UID{"a", "b"} {
		for _, version := range []string{"9", "11", "12"} {
			u := &unstructured.Unstructured{}
			u.SetUID(uid)
			u.SetResourceVersion(version)
			if selects(history.Change{Object: u}) {
				got = append(got, string(uid)+version)
			}
		}
	}
	if want := []string{"a9", "b9", "b11", "b12"}; !slices.Equal(got, want) {
		t.Errorf("selected %v, want %v", got, want)
	}
}
