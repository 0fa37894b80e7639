package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/homeostat-dev/homeostat/testkit"
)

// packed returns the archives of all charts and of the umbrella, which is last, as make helm-package writes them.
func packed(t *testing.T) (files []string) {
	t.Helper()
	dirs, err := filepath.Glob(operators + "/*/chart")
	if err != nil || len(dirs) < 2 {
		t.Fatal("there are the charts", dirs, err)
	}
	args := []string{"package", "-version", "1.2.3", "-images", "elsewhere/team/", "-umbrella", "homeostat", "-o", t.TempDir()}
	for _, dir := range dirs {
		args = append(args, filepath.Dir(dir))
	}
	var out strings.Builder
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	files = strings.Fields(out.String())
	if len(files) != len(dirs)+1 || filepath.Base(files[len(dirs)]) != "homeostat-1.2.3.tgz" {
		t.Fatalf("it wrote %v, want an archive for each of %v, and their umbrella's", files, dirs)
	}
	return files
}

func archive(t *testing.T, file string) *chart.Chart {
	t.Helper()
	c, err := loader.LoadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A release of the umbrella runs two operators in one namespace, and switches one off again. The test is not parallel, and
// removes all definitions, because the tests of the single charts run after it on the same cluster.
func TestUmbrellaLife(t *testing.T) {
	files := packed(t)
	all := files[len(files)-1]
	stays, goes := newReleases(t, operators+"/immortalcontainer"), newReleases(t, operators+"/myapp")
	home := stays.namespace("umbrella", restricted)
	stays.checkInstallFails(home, archive(t, all), "No operator is enabled: switch on what you need")
	stay := "immortalcontainer.enabled=true,immortalcontainer.replicas=2"
	both := stays.install(home, archive(t, all), stay, "myapp.enabled=true")
	work := stays.namespace("work", nil)
	stays.waitReady(home, work)
	goes.waitReady(home, work) // it has a lease of its own, or it would wait for the other operator to end

	one := stays.upgrade(home, archive(t, all), stay)
	removed := missing(both, one)
	if find(t, removed, "Deployment").GetName() != goes.controller {
		t.Errorf("an upgrade without myapp removes %v", names(removed))
	}
	stays.waitGone(removed)
	for _, r := range []*releases{stays, goes} {
		r.samplesStay(work)
		r.checkDefinitions("")
	}
	stays.uninstall(home)
	stays.waitGone(one)
	for _, r := range []*releases{stays, goes} { // while their operators run, because these remove the finalizers
		for _, sample := range r.samples(work) {
			r.deleteObject(sample)
		}
		for _, crd := range r.definitions {
			r.k.Delete(crd.DeepCopy())
			r.k.Eventually(crd.DeepCopy(), testkit.Gone())
		}
	}
}

// deleteObject deletes an object of an operator that no longer runs.
func (r *releases) deleteObject(o *unstructured.Unstructured) {
	r.t.Helper()
	if o.GetKind() == "Namespace" {
		return
	}
	r.k.Get(o)
	o.SetFinalizers(nil)
	if err := r.k.Client.Update(r.t.Context(), o); err != nil {
		r.t.Fatal(err)
	}
	r.k.Delete(o)
	r.k.Eventually(o, testkit.Gone())
}

func names(objects []*unstructured.Unstructured) (all []string) {
	for _, o := range objects {
		all = append(all, o.GetKind()+" "+o.GetName())
	}
	return all
}

// All operators together equal the single charts: no name occurs twice, and no Deployment, Service or policy selects pods of
// another operator.
func TestUmbrellaHasTheCharts(t *testing.T) {
	t.Parallel()
	files := packed(t)
	alone, set := map[string]*unstructured.Unstructured{}, []string{}
	for _, file := range files[:len(files)-1] {
		c := archive(t, file)
		set = append(set, c.Name()+".enabled=true")
		objects, err := render(t, c, "default")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			key := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
			if alone[key] != nil {
				t.Errorf("two charts have %s", key)
			}
			alone[key] = o
		}
	}
	together, err := render(t, archive(t, files[len(files)-1]), "default", set...)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range together {
		key := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
		if alone[key] == nil {
			t.Errorf("only the umbrella has %s", key)
		}
		delete(alone, key)
		if image, ok := imageOf(o); ok && (!strings.HasPrefix(image, "elsewhere/team/") || !strings.HasSuffix(image, ":1.2.3")) {
			t.Errorf("%s runs %s, want the image of the version", key, image)
		}
	}
	if len(alone) > 0 {
		t.Errorf("the umbrella does not have %v", alone)
	}
	for _, o := range together {
		if selector := podSelector(o); selector != nil && len(selected(together, selector)) != 1 {
			t.Errorf("%s %s is about the pods of %v, want those of one", o.GetKind(), o.GetName(), selected(together, selector))
		}
	}
}

func imageOf(o *unstructured.Unstructured) (string, bool) {
	if o.GetKind() != "Deployment" {
		return "", false
	}
	image, _ := container(o)["image"].(string)
	return image, true
}

// podSelector returns the labels by which an object selects pods, or nil.
func podSelector(o *unstructured.Unstructured) map[string]string {
	for kind, path := range map[string][]string{
		"Deployment": {"spec", "selector", "matchLabels"}, "Service": {"spec", "selector"},
		"NetworkPolicy": {"spec", "podSelector", "matchLabels"}, "PodDisruptionBudget": {"spec", "selector", "matchLabels"},
	} {
		if o.GetKind() == kind {
			selector, _, _ := unstructured.NestedStringMap(o.Object, path...)
			return selector
		}
	}
	return nil
}

// selected returns the Deployments with pods that have these labels.
func selected(objects []*unstructured.Unstructured, selector map[string]string) (all []string) {
	for _, o := range objects {
		pod, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		if o.GetKind() == "Deployment" && labels.SelectorFromSet(selector).Matches(labels.Set(pod)) {
			all = append(all, o.GetName())
		}
	}
	return all
}

// Charts, images and dependencies have one version, and the archives contain no time.
func TestVersionsAgree(t *testing.T) {
	t.Parallel()
	first, second := packed(t), packed(t)
	all := archive(t, first[len(first)-1])
	var wanted, there []string
	for i, file := range first {
		c := archive(t, file)
		if c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "1.2.3" {
			t.Errorf("%s has version %s and appVersion %s, want 1.2.3 for both", file, c.Metadata.Version, c.Metadata.AppVersion)
		}
		if c.Name() != all.Name() {
			wanted = append(wanted, c.Name()+" 1.2.3 "+c.Name()+".enabled")
		}
		one, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := os.ReadFile(second[i]); err != nil || string(one) != string(other) {
			t.Errorf("%s is not what it was a moment ago, %v", filepath.Base(file), err)
		}
	}
	for _, d := range all.Metadata.Dependencies {
		there = append(there, strings.Join([]string{d.Name, d.Version, d.Condition}, " "))
	}
	if !slices.Equal(there, wanted) {
		t.Errorf("the umbrella depends on %v, want %v", there, wanted)
	}
}

func TestUmbrellaValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	files := packed(t)
	for name, tc := range map[string]struct{ set, want string }{
		"no operator":                 {"database.enabled=false", "No operator is enabled"},
		"a misspelt operator":         {"databse.enabled=true", "'databse' not allowed"},
		"text for a switch":           {"database.enabled=yes", "/database/enabled': got string, want boolean"},
		"a number for a switch":       {"database.enabled=1", "/database/enabled': got number, want boolean"},
		"a switch for the operator":   {"database=true", "type mismatch on database: true"},
		"no switch":                   {"database.enabled=null", "/database/enabled': got null, want boolean"},
		"no operator at all":          {"database=null", "/database': missing property 'enabled'"},
		"a typo in an operator":       {"database.enabled=true,database.replica=2", "'replica' not allowed"},
		"text for a number in it":     {"database.enabled=true,database.replicas=many", "/replicas': got string, want integer"},
		"an operator's value for all": {"database.enabled=true,replicas=2", "'replicas' not allowed"},
	} {
		_, err := render(t, archive(t, files[len(files)-1]), "default", tc.set)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: --set %s: error %v, want one with %q", name, tc.set, err, tc.want)
		}
	}
	for set, want := range map[string]string{"1.2": "1.2.3", "v1.2.3": "1.2.3", "latest": "1.2.3"} {
		folder := filepath.Join(t.TempDir(), "charts")
		err := run([]string{"package", "-version", set, "-o", folder, operators + "/myapp"}, &strings.Builder{})
		if _, left := os.Stat(folder); err == nil || !strings.Contains(err.Error(), "write it as "+want) || left == nil {
			t.Errorf("version %s: error %v, and the folder is there: %t", set, err, left == nil)
		}
	}
}
