package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page explores an operator of another project.
const page = "../../../../../docs/explore-an-operator.md"

// bundle stands for the chart of the page.
const bundle = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: trust-manager}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bundles.trust.cert-manager.io}
spec:
  group: trust.cert-manager.io
  scope: Cluster
  names: {kind: Bundle, plural: bundles, singular: bundle, listKind: BundleList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// The scenario and the options of the page are valid. Neither the program nor the chart is needed for that, because the file
// of --continue, which is read last, does not exist.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "chart.yaml", bundle)
	for _, name := range []string{"roots-1.yaml", "roots-2.yaml"} {
		write(t, dir, name, configMap)
	}
	for _, m := range regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		write(t, dir, m[1], m[2])
	}
	script, err := os.ReadFile(filepath.Join(dir, "explore.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/true", filepath.Join(dir, "trust-manager")); err != nil {
		t.Fatal(err)
	}
	w := newWorkspace(t)
	for _, m := range regexp.MustCompile(`(?m)^\$ sh explore\.sh (.*)$`).FindAllStringSubmatch(string(text), -1) {
		line := strings.NewReplacer(`"$@"`, m[1]+" --continue former.json", "\\\n", "", `'`, "").Replace(string(script))
		cmd := w.command(strings.Fields(line)[1:]...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		check(t, m[0], w.wait(cmd), 2, "former.json: no such file")
	}
}
