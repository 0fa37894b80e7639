package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// Each stage has to follow the rules against stale events, which are easily forgotten in a new one.
func TestStagesFollowRules(t *testing.T) {
	t.Parallel()
	files, err := kubelet.WriteStages(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stage := string(data)
		if strings.Contains(stage, "cel:") {
			t.Errorf("%s selects with CEL, which is not safe for concurrent use in kwok", name)
		}
		if strings.Contains(stage, "delete: true") {
			t.Errorf("%s deletes by name alone; use Remove", name)
		}
		if strings.Contains(stage, "\n        status:\n") && !strings.Contains(stage, "resourceVersion: {{ .metadata") {
			t.Errorf("%s writes a status without the resource version that it was computed from", name)
		}
		if strings.HasPrefix(name, "pod-") && !strings.Contains(stage, "Reachable .spec.nodeName") {
			t.Errorf("%s does not check the node", name)
		}
	}
}

func TestWriteStagesError(t *testing.T) {
	t.Parallel()
	if _, err := kubelet.WriteStages(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("stages were written into a folder that does not exist")
	}
}
