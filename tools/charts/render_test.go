package main

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A stored chart equals the generated one, as `make generate` writes it.
func TestGenerated(t *testing.T) {
	eachChart(t, func(t *testing.T, dir string) {
		again := filepath.Join(t.TempDir(), filepath.Base(dir))
		if err := os.CopyFS(filepath.Join(again, "config"), os.DirFS(filepath.Join(dir, "config"))); err != nil {
			t.Fatal(err)
		}
		if err := generate(again, "", ""); err != nil {
			t.Fatal(err)
		}
		want, got := readAll(t, filepath.Join(again, "chart")), readAll(t, filepath.Join(dir, "chart"))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("make generate changes it, -want +got:\n%s", diff)
		}
	})
}

// A kustomize component becomes a value of the chart. With the value, the chart equals config with the component.
func TestComponents(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "myapp")
	if err := os.CopyFS(filepath.Join(dir, "config"), os.DirFS(operators+"/myapp/config")); err != nil {
		t.Fatal(err)
	}
	component(t, dir, "secrets", `
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
  - target: {kind: Deployment}
    patch: |
      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --secrets}
  - target: {kind: ClusterRole|Role, name: myapp-operator}
    patch: |
      - {op: add, path: /rules/-, value: {apiGroups: [""], resources: [secrets], verbs: [get]}}
`)
	if err := generate(dir, "", ""); err != nil {
		t.Fatal(err)
	}
	for overlay, set := range map[string]string{"default": "replicas=1", "namespaced": "watchNamespaces={default}"} {
		with, err := buildWith(filepath.Join(dir, "config"), overlay, "secrets")
		if err != nil {
			t.Fatal(err)
		}
		without, err := build(filepath.Join(dir, "config", overlay), false)
		if err != nil {
			t.Fatal(err)
		}
		for on, want := range map[string][]*unstructured.Unstructured{"true": with, "false": without} {
			got, err := render(t, load(t, dir), "myapp-operator", set, "secrets.enabled="+on)
			if err != nil {
				t.Fatal(err)
			}
			args := stringsOf(container(find(t, got, "Deployment"))["args"])
			if slices.Contains(args, "--secrets") != (on == "true") {
				t.Errorf("secrets.enabled=%s: the arguments are %q", on, args)
			}
			if diff := gocmp.Diff(normalize(onlyRights(want)), normalize(onlyRights(got))); diff != "" {
				t.Errorf("config/%s and the chart differ with secrets.enabled=%s, -config +chart:\n%s", overlay, on, diff)
			}
		}
	}

	component(t, dir, "replicas", `
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
  - target: {kind: Deployment}
    patch: |
      - {op: replace, path: /spec/replicas, value: 2}
`)
	if err := generate(dir, "", ""); err == nil || !strings.Contains(err.Error(), "config/replicas") {
		t.Errorf("a component that changes what a chart cannot: error %v, want its name", err)
	}
}

func component(t *testing.T, dir, name, kustomization string) {
	t.Helper()
	folder := filepath.Join(dir, "config", name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
}

// onlyRights keeps roles, bindings and the ServiceAccount.
func onlyRights(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return o.GetKind() != "ServiceAccount" && o.GroupVersionKind().Group != "rbac.authorization.k8s.io"
	})
}

func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*", "templates/*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if content, err := os.ReadFile(name); err == nil { // skip folders
				all[strings.TrimPrefix(name, dir)] = string(content)
			}
		}
	}
	return all
}

func TestNotAnOperator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := generate(dir, "", ""); err == nil || !strings.Contains(err.Error(), "config/rbac") {
		t.Errorf("generating a chart from an empty folder: error %v, want what is missing", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "chart")); err == nil {
		t.Error("there is a chart")
	}
}

func TestLint(t *testing.T) {
	eachChart(t, func(t *testing.T, dir string) {
		kube := &chartutil.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}
		sets := [][]string{nil}
		if hasPart(dir, overlayNamespaced) {
			sets = append(sets, []string{"watchNamespaces={a,b}"})
		}
		if hasPart(dir, "webhook") {
			sets = append(sets, certManager, []string{"webhooks.enabled=false", "crds.enabled=false"})
		}
		for _, set := range sets {
			for _, m := range lint.AllWithKubeVersion(filepath.Join(dir, "chart"), values(t, set...), "default", kube).Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("with %v: %v", set, m)
				}
			}
		}
	})
}

var certManager = []string{"webhooks.certManager.enabled=true"}

// Without values the chart installs the objects of `kubectl apply -k config/default`. With cert-manager it installs those of
// config/cert-manager. With one watched namespace it grants the permissions of config/namespaced.
func TestSameAsConfig(t *testing.T) {
	eachChart(t, func(t *testing.T, dir string) {
		for overlay, set := range map[string][]string{
			overlayDefault: nil, overlayNamespaced: {"watchNamespaces={default}"}, "cert-manager": certManager,
		} {
			if !hasPart(dir, overlay) {
				continue
			}
			want, err := build(filepath.Join(dir, "config", overlay), false)
			if err != nil {
				t.Fatal(err)
			}
			if hasPart(dir, "webhook") && !slices.ContainsFunc(want, isOfWebhook) { // this overlay works without
				set = append(set, "webhooks.enabled=false", "crds.enabled=false")
			}
			namespace := find(t, want, "Deployment").GetNamespace()
			got, err := render(t, load(t, dir), namespace, append(set, "podDisruptionBudget.enabled=false")...)
			if err != nil {
				t.Fatal(err)
			}
			if overlay == overlayNamespaced { // TestValues covers Service and arguments
				want, got = onlyRights(want), onlyRights(got)
			} else {
				compareArgs(t, find(t, want, "Deployment"), find(t, got, "Deployment"))
			}
			if diff := gocmp.Diff(normalize(want), normalize(got)); diff != "" {
				t.Errorf("config/%s and the chart differ, -config +chart:\n%s", overlay, diff)
			}
		}
	})
}

// isOfWebhook reports whether an object is the Service of webhooks.
func isOfWebhook(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Service" && strings.HasSuffix(o.GetName(), "-webhook")
}

// normalize reduces objects to the fields that config and the chart have in common, sorted.
func normalize(objects []*unstructured.Unstructured) (all []map[string]any) {
	objects = slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace"
	})
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetNamespace(), b.GetNamespace()),
			cmp.Compare(a.GetName(), b.GetName()))
	})
	for _, o := range objects {
		labels, annotations := o.GetLabels(), o.GetAnnotations()
		maps.DeleteFunc(labels, func(k, _ string) bool {
			return strings.HasPrefix(k, "app.kubernetes.io/") || strings.HasPrefix(k, "helm.sh/")
		})
		delete(annotations, "helm.sh/resource-policy")
		o.SetLabels(nilIfEmpty(labels))
		o.SetAnnotations(nilIfEmpty(annotations))
		all = append(all, o.Object)
	}
	return all
}

func nilIfEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// compareArgs expects the arguments and the pull policy of one in the other, and then removes them from it.
func compareArgs(t *testing.T, config, chart *unstructured.Unstructured) {
	t.Helper()
	want, got := container(config), container(chart)
	for _, arg := range stringsOf(want["args"]) {
		if !slices.Contains(stringsOf(got["args"]), arg) {
			t.Errorf("config has the argument %s, the chart only %q", arg, got["args"])
		}
	}
	for _, c := range []map[string]any{want, got} {
		delete(c, "args")
		delete(c, "imagePullPolicy")
	}
}

// container returns the container of a Deployment, not a copy.
func container(deployment *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedFieldNoCopy(deployment.Object, "spec", "template", "spec", "containers")
	return spec.([]any)[0].(map[string]any)
}

func stringsOf(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, item.(string))
	}
	return all
}

// values.yaml and the schema have the same values, so that each value can be set and has an effect.
func TestSchemaHasTheValues(t *testing.T) {
	eachChart(t, func(t *testing.T, dir string) {
		c := load(t, dir)
		for name := range c.Values {
			if _, err := render(t, load(t, dir), "default", name+"x=1"); err == nil {
				t.Errorf("%sx is not refused", name)
			}
		}
		if _, err := render(t, c, "default", "global.x=1"); err != nil {
			t.Errorf("values for all charts of a parent are refused: %v", err)
		}
	})
}

func TestValuesThatAreRefused(t *testing.T) {
	cases := map[string]struct{ set, want, reason string }{
		"a typo":               {"replica=2", "replica", "a value without effect is a mistake"},
		"a typo further in":    {"image.repo=x", "repo", "at every depth"},
		"a typo in a monitor":  {"metrics.serviceMonitor.enable=true", "enable", "at every depth"},
		"a number for a tag":   {"image.tag=2", "tag", "1.0 would become 1 in a file: quote it, or --set-string"},
		"text for a number":    {"replicas=two", "replicas", "Kubernetes would say it later and less clearly"},
		"less than none":       {"replicas=-1", "replicas", "there is no such number of pods"},
		"no worker":            {"workers=0", "workers", "the program would end at once"},
		"a name for a list":    {"watchNamespaces=shop", "watchNamespaces", "it looks as if it worked"},
		"not a namespace":      {"watchNamespaces={Shop}", "watchNamespaces", "no namespace is called so"},
		"a namespace twice":    {`watchNamespaces={shop\,shop}`, "watchNamespaces", "its Role would be there twice"},
		"an unknown level":     {"log.level=verbose", "level", "the program would end at once"},
		"an unknown format":    {"log.format=xml", "format", "the program would end at once"},
		"an unknown policy":    {"image.pullPolicy=Sometimes", "pullPolicy", "the API server would refuse it"},
		"an argument as text":  {"extraArgs=--workers=2", "extraArgs", "it is a list"},
		"a flag without dash":  {"extraArgs={workers}", "extraArgs", "the program takes flags only"},
		"a number for a label": {"podLabels.a=1", "podLabels", "labels are text: --set-string"},
		"a secret without name": {
			"imagePullSecrets[0].secret=x", "imagePullSecrets", "it would pull without it",
		},
		"a ServiceAccount of others without name": {
			"serviceAccount.create=false", "serviceAccount.name", "the chart cannot know which",
		},
		"a monitor of no metrics": {
			"metrics.enabled=false,metrics.serviceMonitor.enabled=true", "metrics.enabled", "it would find nothing, silently",
		},
		"a monitor of metrics that need a right in the whole cluster": {
			"watchNamespaces={a},metrics.serviceMonitor.enabled=true", "metrics.secure", "it would find nothing, silently",
		},
	}
	eachChart(t, func(t *testing.T, dir string) {
		for name, tc := range cases {
			if strings.HasPrefix(tc.set, "watchNamespaces") && !hasPart(dir, overlayNamespaced) {
				continue // TestChartOfTheWholeCluster
			}
			_, err := render(t, load(t, dir), "default", tc.set)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: --set %s: error %v, want one about %s: %s", name, tc.set, err, tc.want, tc.reason)
			}
		}
	})
}
