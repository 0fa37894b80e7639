package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSamplesThatNeedRealNodes checks that config/simulated-nodes leaves samples out on simulated nodes alone.
func TestSamplesThatNeedRealNodes(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config")
	for name, text := range map[string]string{
		"samples/web.yaml":           "{kind: Web, apiVersion: example.com/v1, metadata: {name: a}}",
		"samples/dump.yaml":          "{kind: Dump, apiVersion: example.com/v1, metadata: {name: a}}",
		"samples/kustomization.yaml": "resources: [web.yaml, dump.yaml]",
		"simulated-nodes/kustomization.yaml": `{"resources": ["../samples"], "patches": [{"patch":
			"{$patch: delete, kind: Dump, apiVersion: example.com/v1, metadata: {name: a}}"}]}`,
	} {
		file := filepath.Join(config, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &Project{Dir: filepath.Dir(config)}
	if err := p.loadSamples(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		nodes string
		opts  Options
		want  []string
	}{
		{"simulated", Options{}, []string{"Web"}},
		{"of an existing cluster", Options{Existing: &ExistingCluster{}}, []string{"Web", "Dump"}},
		{"without operators", Options{WithoutOperators: true}, nil},
	} {
		test.opts.Projects = []*Project{p}
		var kinds []string
		for _, u := range (&Sandbox{opts: test.opts}).Samples() {
			kinds = append(kinds, u.GetKind())
		}
		if slices.Sort(kinds); !slices.Equal(kinds, slices.Sorted(slices.Values(test.want))) {
			t.Errorf("nodes %s: samples %v, want %v", test.nodes, kinds, test.want)
		}
	}
}
