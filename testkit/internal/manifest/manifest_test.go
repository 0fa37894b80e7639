package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
)

const twoObjects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
# nothing but a comment
---
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [a.yaml]
---
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}
`

func TestReadFS(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"dir/two.yaml":       {Data: []byte(twoObjects)},
		"dir/one.json":       {Data: []byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}`)},
		"dir/README.md":      {Data: []byte("no manifest")},
		"dir/sub/more.yaml":  {Data: []byte(twoObjects)},
		"empty/README.md":    {Data: []byte("no manifest")},
		"broken/broken.yaml": {Data: []byte("kind: [")},
	}
	tests := map[string]struct {
		reason  string
		name    string
		want    []string
		wantErr string
	}{
		"Folder": {
			reason: "files in the order of their names, documents in theirs, no subfolders",
			name:   "dir", want: []string{"Pod c", "ConfigMap a", "Secret b"},
		},
		"File":    {reason: "one file", name: "dir/two.yaml", want: []string{"ConfigMap a", "Secret b"}},
		"Nothing": {reason: "an empty folder is a mistake", name: "empty", wantErr: "in empty: no object found"},
		"Missing": {reason: "a wrong path is a mistake", name: "wrong", wantErr: "wrong: file does not exist"},
		"Broken":  {reason: "the file should be named", name: "broken", wantErr: "in broken: broken.yaml: decoding"},
	}
	for name, tt := range tests {
		objects, err := manifest.ReadFS(fsys, tt.name, tt.name)
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s: error %v, want %q, because %s", name, err, tt.wantErr, tt.reason)
			}
			continue
		}
		var got []string
		for _, u := range objects {
			got = append(got, u.GetKind()+" "+u.GetName())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got), because %s:\n%s", name, err, tt.reason, diff)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "two.yaml")
	if err := os.WriteFile(file, []byte(twoObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, file} {
		if objects, err := manifest.Read(name); err != nil || len(objects) != 2 {
			t.Errorf("%s: %v, %v", name, objects, err)
		}
	}
	if _, err := manifest.Read(filepath.Join(dir, "wrong")); err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v", err)
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}
	u, err := manifest.FromObject(cm, scheme.Scheme)
	if err != nil || u.GetKind() != "ConfigMap" || u.GetAPIVersion() != "v1" {
		t.Fatalf("%v, %v", u, err)
	}
	back := &corev1.ConfigMap{Data: map[string]string{"old": "v"}}
	if err := manifest.ToObject(u, back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cm.Data, back.Data); diff != "" || back.Name != "a" {
		t.Errorf("not overwritten (-want +got):\n%s", diff)
	}
}
