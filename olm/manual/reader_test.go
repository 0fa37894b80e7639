package manual_test

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/olm/manual"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// definitions are those of the operator that the page installs.
var definitions = []string{"databases.techoral.com", "dbsnapshots.techoral.com"}

// A reader runs the commands of the page in their order, on a cluster that runs the pods of operators.
type reader struct {
	t        *testing.T
	k        *testkit.K
	shell    *manual.Shell
	children map[string]string // of the page's Database, with their UIDs, when it became Ready
	images   map[string]bool   // of the pods so far
	programs map[string]bool   // of their main containers, without init containers
}

func newReader(t *testing.T, opts ...testkit.Option) *reader {
	t.Helper()
	k := testkit.New(t, opts...)
	var projects []*sandbox.Project
	for _, name := range []string{"database", "myapp"} {
		project, err := sandbox.Load(t.Context(), filepath.Join(root, "operators", name))
		if err != nil {
			t.Fatal(err)
		}
		projects = append(projects, project)
	}
	pods, err := sandbox.RunPods(t.Context(), k.Config, projects, sandbox.PodsOptions{
		Report: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pods.Stop(); err != nil {
			t.Error(err)
		}
	})
	set, err := assets.Find(t.Context(), assets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubeconfig, err := programs.Kubeconfig(dir, k.Config)
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "tools/charts"), "tool", "-n", "helm")
	build.Env = append(os.Environ(), "GOWORK=off")
	helm, err := build.Output()
	if err != nil {
		t.Fatalf("building helm: %v", err)
	}
	for name, program := range map[string]string{"kubectl": set.Path("kubectl"), "helm": string(helm[:len(helm)-1])} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return &reader{t: t, k: k, images: map[string]bool{}, programs: map[string]bool{}, shell: &manual.Shell{
		Dir: root, Env: append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+dir+":"+os.Getenv("PATH"),
			"HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir),
	}}
}

// read returns the commands of a section.
func (r *reader) read(section string) []string {
	r.t.Helper()
	commands, err := manual.Commands(page, section)
	if err != nil {
		r.t.Fatal(err)
	}
	return commands
}

// follow runs the commands of a section at the root of the repository.
func (r *reader) follow(section string) {
	r.t.Helper()
	r.run(section, r.read(section))
}

// run runs commands, and returns the output of the last one.
func (r *reader) run(section string, commands []string) (said string) {
	r.t.Helper()
	for _, command := range commands {
		began := time.Now()
		var err error
		if said, err = r.try(command); err != nil {
			r.t.Fatalf("%s: %v", section, err)
		}
		r.t.Logf("%4.1f s: $ %s\n%s", time.Since(began).Seconds(), command, said)
		if strings.Contains(command, "condition=Ready") {
			r.children = r.uids()
		}
		var pods corev1.PodList
		if err := r.k.Client.List(r.t.Context(), &pods); err != nil {
			r.t.Fatal(err)
		}
		for _, pod := range pods.Items {
			for _, c := range pod.Spec.InitContainers {
				r.images[c.Image] = true
			}
			for _, c := range pod.Spec.Containers {
				r.images[c.Image], r.programs[c.Image] = true, true
			}
		}
	}
	return said
}

func (r *reader) try(command string) (string, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 6*time.Minute)
	defer cancel()
	return r.shell.Run(ctx, command)
}

// checkFails runs a command that must fail with a message that contains why.
func (r *reader) checkFails(command, why string) {
	r.t.Helper()
	if _, err := r.try(command); err == nil || !strings.Contains(err.Error(), why) {
		r.t.Fatalf("$ %s: %v, want it to fail: %s", command, err, why)
	}
}

// checkPulled expects pods to have had an image from elsewhere, and no other image of its name and tag.
func (r *reader) checkPulled(image string) {
	r.t.Helper()
	for seen := range r.images {
		if path.Base(seen) == image && seen != elsewhere+image {
			r.t.Errorf("a pod had the image %s", seen)
		}
	}
	if !r.images[elsewhere+image] {
		r.t.Errorf("no pod had the image %s; there were %v", elsewhere+image, r.images)
	}
}

// uids returns the UIDs of the operator's children.
func (r *reader) uids() map[string]string {
	r.t.Helper()
	all, err := fixture.Children(r.t.Context(), r.k.Client, metav1.NamespaceDefault)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, state := range all {
		all[name], _, _ = strings.Cut(state, " ")
	}
	return all
}

// checkUnchanged expects the Database, its definitions and its children to exist, and none of them to be terminating.
func (r *reader) checkUnchanged() {
	r.t.Helper()
	db := &unstructured.Unstructured{}
	db.SetAPIVersion("techoral.com/v1")
	db.SetKind("Database")
	db.SetName("orders-db")
	db.SetNamespace(metav1.NamespaceDefault)
	objects := []client.Object{db}
	for _, name := range definitions {
		objects = append(objects, definition(name))
	}
	for _, o := range objects {
		r.k.Get(o)
		if at := o.GetDeletionTimestamp(); at != nil {
			r.t.Errorf("%s is being deleted since %v", o.GetName(), at)
		}
	}
	after := r.uids()
	for name, uid := range r.children {
		if after[name] != uid {
			r.t.Errorf("%s was %s and is %q", name, uid, after[name])
		}
	}
	if _, ok := r.children["StatefulSet orders-db-db"]; !ok {
		r.t.Errorf("the Database had %v, and no StatefulSet", r.children)
	}
}

func definition(name string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// cleanUp removes the objects of a section, so that the next section does not wait for them.
func (r *reader) cleanUp() {
	r.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("techoral.com/v1")
	list.SetKind("DatabaseList")
	if err := r.k.Client.List(r.t.Context(), list); err != nil {
		r.t.Fatal(err)
	}
	for _, o := range list.Items {
		r.k.Update(&o, func() { o.SetFinalizers(nil) })
	}
	for _, name := range definitions {
		if err := client.IgnoreNotFound(r.k.Client.Delete(r.t.Context(), definition(name))); err != nil {
			r.t.Fatal(err)
		}
		r.k.Eventually(definition(name), testkit.Gone())
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "orders-db-db", Namespace: metav1.NamespaceDefault}}
	r.k.Eventually(set, testkit.Gone())
}
