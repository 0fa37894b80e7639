package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

func TestFields(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	version := func(annotations, data fields) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: fields{
			"metadata": fields{"name": "web", "uid": "cm-1", "annotations": annotations}, "data": data, "status": annotations,
		}}
	}
	before := version(nil, fields{"level": "1", "list": []any{"a"}})
	after := version(fields{"of.n-1": "x"}, fields{"level": "2", "list": []any{"b"}})
	names := state.NewNameMap("n-1", []history.Change{change("configmaps", before.Object)}, nil, time.Time{})
	var got []string
	changed := names.ChangedFields(before, after)
	for _, f := range changed {
		got = append(got, f.String())
	}
	if diff := cmp.Diff([]string{"data.level", "data.list", "metadata.annotations.of.$NAMESPACE"}, got); diff != "" {
		t.Errorf("changed fields (-want +got):\n%s", diff)
	}
	if got := names.At(after, changed[0]); got != "2" {
		t.Errorf("data.level is %q, want 2", got)
	}
	path, value := names.Find(after, changed[2])
	if diff := cmp.Diff([]string{"metadata", "annotations", "of.n-1"}, path); diff != "" || value != "x" {
		t.Errorf("found the annotation %v (-want +got):\n%s", value, diff)
	}
	if path, _ := names.Find(before, changed[2]); path != nil {
		t.Errorf("found the annotation at %v before it was added", path)
	}
	s := state.State{
		"configmaps/web": fields{
			"metadata": fields{"annotations": fields{"of.$NAMESPACE": "x"}}, "data": fields{"level": "1", "other": "2"},
		},
		"configmaps/b-~1": fields{"metadata": fields{}, "data": fields{"level": "1"}},
		"configmaps/c":    fields{"data": fields{"level": "1"}},
	}
	without := state.Without(s, map[string][]state.Field{"configmaps/web": changed, "configmaps/b-~2": changed})
	want := state.State{
		"configmaps/web":  fields{"metadata": fields{}, "data": fields{"other": "2"}},
		"configmaps/b-~1": fields{"metadata": fields{}},
		"configmaps/c":    fields{"data": fields{"level": "1"}},
	}
	if diff := cmp.Diff(want, without); diff != "" {
		t.Errorf("without the fields (-want +got):\n%s", diff)
	}
}
