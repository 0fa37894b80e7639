package metacontroller_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/function"
	"github.com/homeostat-dev/homeostat/sdk/function/metacontroller"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Page is the kind of the guide.
type Page struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Text string `json:"text"`
	} `json:"spec"`
	Status struct {
		conditions.Status `json:",inline"`
		Published         bool `json:"published"`
	} `json:"status"`
}

// CommonStatus implements sdk.Object.
func (p *Page) CommonStatus() *conditions.Status { return &p.Status.Status }

// DeepCopyObject implements runtime.Object.
func (p *Page) DeepCopyObject() runtime.Object {
	c := *p
	p.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	p.Status.Status.DeepCopyInto(&c.Status.Status)
	return &c
}

// PageList is a list of pages.
type PageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Page `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *PageList) DeepCopyObject() runtime.Object {
	c := &PageList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		p, _ := l.Items[i].DeepCopyObject().(*Page) // a copy has the type of its original
		c.Items = append(c.Items, *p)
	}
	return c
}

func addToScheme(s *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	s.AddKnownTypes(version, &Page{}, &PageList{})
	metav1.AddToGroupVersion(s, version)
	return nil
}

func reconcile(_ context.Context, p *sdk.Pass[*Page]) error {
	config := sdk.Apply(p, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name},
		Data:       map[string]string{"index.html": p.Object.Spec.Text},
	})
	p.Object.Status.Published = config.Exists()
	return nil
}

// guide returns the code of the guide by file name, and the text of the guide.
func guide(t *testing.T) (blocks map[string]string, text string) {
	t.Helper()
	data, err := os.ReadFile("../../../../docs/from-metacontroller.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks = map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$").FindAllStringSubmatch(string(data), -1) {
		blocks[m[1]] = m[2]
	}
	return blocks, string(data)
}

// The hook, the function in Python and the operator in Go of the guide do the same: each takes over the objects of the one
// before without a write, and the first one takes over a child that Metacontroller created.
func TestGuide(t *testing.T) {
	t.Parallel()
	blocks, text := guide(t)
	own, err := os.ReadFile("page_test.go")
	if err != nil {
		t.Fatal(err)
	}
	snippet := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindStringSubmatch(text)
	if len(blocks) != 4 || snippet == nil || !strings.Contains(string(own), snippet[1]) {
		t.Fatalf("the guide has the files %v and the function of this test", blocks)
	}
	folder := t.TempDir()
	for name, content := range blocks {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	controllers, err := metacontroller.Load(filepath.Join(folder, "controller.yaml"))
	if err != nil || len(controllers) != 1 {
		t.Fatal(len(controllers), err)
	}
	config, err := function.Load(filepath.Join(folder, "operator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	library, err := filepath.Abs("../../../python")
	if err != nil {
		t.Fatal(err)
	}
	process := &function.Process{
		Command: []string{"python3", "reconcile.py"}, Dir: folder,
		Env: []string{"PYTHONPATH=" + library, "PYTHONDONTWRITEBYTECODE=1"},
	}

	k := testkit.New(t)
	page := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Page", "metadata": map[string]any{"name": "home"},
		"spec": map[string]any{"text": "hello"},
	}}
	k.Apply(page)
	isController := metav1.NewControllerRef(page, page.GroupVersionKind())
	before := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "home", OwnerReferences: []metav1.OwnerReference{*isController}},
		Data:       map[string]string{"index.html": "old"},
	}
	k.Apply(before)
	for i, op := range []testkit.Runnable{
		&metacontroller.Operator{Controller: controllers[0], Base: serve(t, folder, "hook.py")},
		&function.Operator{Config: config, Function: process},
		&sdk.Operator[*Page]{
			Name: "pages", AddToScheme: addToScheme, Owns: []client.Object{&corev1.ConfigMap{}}, Reconcile: reconcile,
		},
	} {
		running := k.Run(op)
		k.Eventually(page, testkit.Ready(), field(true, "status", "published"))
		k.Eventually(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "home"}}, content("hello"))
		idle(k, running)
		if writes := running.Recorder().Writes(); i > 0 && len(writes) > 0 {
			t.Errorf("implementation %d makes requests for the objects of the one before: %v", i+1, writes)
		}
		k.Get(before)
		k.Update(before, func() { before.Data["index.html"] = "changed by hand" })
		k.Eventually(before, content("hello"))
		idle(k, running)
		running.Stop()
	}
	k.Delete(page)
	k.Eventually(before, testkit.Gone())
}

// content checks the text of a page.
func content(want string) testkit.Check {
	return testkit.Match("the text is "+want, func(c *corev1.ConfigMap) bool { return c.Data["index.html"] == want })
}
