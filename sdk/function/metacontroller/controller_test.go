package metacontroller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const manifest = `
apiVersion: v1
kind: Service
metadata: {name: hooks}
---
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: pages}
spec:
  parentResource: {apiVersion: example.com/v1, resource: pages, revisionHistory: {fieldPaths: [spec.template]}}
  childResources:
    - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
    - apiVersion: v1
      resource: pods
      updateStrategy: {method: RollingRecreate, statusChecks: {conditions: [{type: Ready}]}}
    - {apiVersion: v1, resource: secrets}
  hooks:
    sync: {webhook: {url: "http://hooks.pages/sync", timeout: 5s}}
    finalize: {webhook: {service: {name: hooks, namespace: pages, port: 8080, protocol: https}, path: /finalize}}
---
apiVersion: metacontroller.k8s.io/v1alpha1
kind: DecoratorController
metadata: {name: labels}
spec:
  resources:
    - apiVersion: v1
      resource: pods
      labelSelector: {matchLabels: {app: web}}
      annotationSelector:
        matchAnnotations: {note: "any text, also a long one"}
        matchExpressions: [{key: opt-out, operator: DoesNotExist}]
  attachments:
    - {apiVersion: v1, resource: services, updateStrategy: {method: Recreate}}
  hooks:
    sync: {webhook: {url: "http://hooks.pages/sync"}}
`

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "controllers.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	controllers, err := Load(file)
	if err != nil || len(controllers) != 2 || controllers[0].Name != "pages" || controllers[1].Name != "labels" {
		t.Fatalf("Load returns %v, %v; there are controllers pages and labels", controllers, err)
	}
	for base, want := range map[string]string{
		"": "https://hooks.pages:8080/finalize", "http://127.0.0.1:9": "http://127.0.0.1:9/finalize",
	} {
		if got, err := controllers[0].Spec.Hooks.Finalize.address(base); got != want || err != nil {
			t.Errorf("with base %q the address of the hook is %s, %v; it must be %s", base, got, err, want)
		}
	}
	_, err = Load(file + ".missing")
	if err == nil || !strings.Contains(err.Error(), "reading the manifest of Metacontroller") {
		t.Errorf("the error for a missing file is %v", err)
	}
}

// Each mistake is one sentence that names the field.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ from, to, want string }{
		"kind":           {"kind: DecoratorController", "kind: MapController", "kind MapController is not supported"},
		"name":           {"{name: labels}", "{name: Labels_1}", `metadata.name "Labels_1"`},
		"parent":         {"{apiVersion: example.com/v1, resource: pages,", "{resource: pages,", "spec.parentResource: "},
		"no child":       {"{apiVersion: v1, resource: secrets}", "{apiVersion: v1}", "spec.childResources[2]: "},
		"method":         {"method: Recreate", "method: Replace", `spec.attachments[0].updateStrategy.method is "Replace"`},
		"no sync":        {`sync: {webhook: {url: "http://hooks.pages/sync"}}`, "{}", "spec.hooks.sync is missing"},
		"no webhook":     {`{webhook: {url: "http://hooks.pages/sync"}}`, "{}", "spec.hooks.sync: webhook is missing"},
		"URL":            {`url: "http://hooks.pages/sync"`, "path: /sync", `webhook has the URL ""`},
		"selector":       {"operator: DoesNotExist", "operator: No", "spec.resources[0].annotationSelector"},
		"label selector": {"matchLabels: {app: web}", "matchLabels: {app: a b}", "spec.resources[0].labelSelector"},
		"nothing decorated": {
			"resources:\n    - apiVersion: v1\n      resource: pods", "others:\n    - apiVersion: v1", "spec.resources is empty",
		},
		"timeout":            {"timeout: 5s", "timeout: soon", "invalid duration"},
		"name of controller": {"{name: pages}", "{name: _}", "CompositeController _: metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(manifest, test.from, test.to, 1)
			if text == manifest {
				t.Fatalf("the manifest has no %q", test.from)
			}
			_, err := parse([]byte(text))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v; it must be one sentence with %q", err, test.want)
			}
		})
	}
}

func TestResourceListedTwice(t *testing.T) {
	t.Parallel()
	const twice = "    - {apiVersion: v2, resource: pods}\n  attachments:"
	_, err := parse([]byte(strings.Replace(manifest, "  attachments:", twice, 1)))
	if err == nil || !strings.Contains(err.Error(), "spec.resources[1]: resource pods is listed twice") {
		t.Errorf("the error is %v", err)
	}
}

// The hooks of a controller have paths, so that a unix socket cannot replace their host.
func TestBase(t *testing.T) {
	t.Parallel()
	controllers, err := parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	for base, usable := range map[string]bool{
		"": true, "http://127.0.0.1:8080": true, "https://hooks": true, "unix:///run/hooks": false, "127.0.0.1:8080": false,
	} {
		if err := (&Transport{Controller: controllers[0], Base: base}).Validate(); (err == nil) != usable {
			t.Errorf("with the URL %q the error is %v", base, err)
		}
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	controllers, err := parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	selects, err := controllers[1].Spec.Resources[0].selection()
	if err != nil {
		t.Fatal(err)
	}
	web := map[string]string{"app": "web", "tier": "front"}
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		want                bool
	}{
		"selected":            {web, map[string]string{"note": "any text, also a long one", "x": "y"}, true},
		"other label":         {map[string]string{"app": "db"}, map[string]string{"note": "any text, also a long one"}, false},
		"other annotation":    {web, map[string]string{"note": "another"}, false},
		"no annotation":       {web, nil, false},
		"unwanted annotation": {web, map[string]string{"note": "any text, also a long one", "opt-out": ""}, false},
	} {
		if got := selects(test.labels, test.annotations); got != test.want {
			t.Errorf("%s: the object is selected: %v", name, got)
		}
	}
	if all, err := (DecoratedResource{}).selection(); err != nil || !all(nil, nil) {
		t.Error("a resource without selectors must select all objects")
	}
}
