package realnodes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/testkit"
)

// read returns the objects of a manifest, such as v0/catalog.
func (s *suite) read(name string) []*unstructured.Unstructured {
	s.t.Helper()
	objects, err := fixture.Read(filepath.Join(manifests, filepath.FromSlash(name)+".yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	return objects
}

// apply applies the manifests that install an operator with a version of OLM. Those of the operator with webhooks are those
// of the other one, with its name.
func (s *suite) apply(version, operator string) []*unstructured.Unstructured {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(manifests, version, immortal+".yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), operator+".yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(data), immortal, operator)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	objects, err := fixture.Read(file)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range objects {
		s.Apply(o)
	}
	return objects
}

// checkPod waits until the pods of an operator are those of a version: they are Ready, and run the image whose digest the
// bundle names. It returns one of them.
func (s *suite) checkPod(operator, version string) *corev1.Pod {
	s.t.Helper()
	want := s.programs[bundleImage(operator, version)]
	_, digest, _ := strings.Cut(want, "@")
	var pods corev1.PodList
	s.Wait(operator+" "+version+" runs", func(ctx context.Context) error {
		if err := s.Client.List(ctx, &pods, client.InNamespace(operator+"-operator")); err != nil {
			return err
		}
		var errs []error
		for _, pod := range pods.Items {
			status := pod.Status.ContainerStatuses
			if pod.Spec.Containers[0].Image != want || len(status) != 1 || !status[0].Ready ||
				!strings.HasSuffix(status[0].ImageID, digest) {
				errs = append(errs, fmt.Errorf("pod %s of %s is %+v", pod.Name, pod.Spec.Containers[0].Image, status))
			}
		}
		if len(pods.Items) == 0 {
			errs = append(errs, errors.New("there is no pod"))
		}
		return errors.Join(errs...)
	})
	s.logElapsed(fmt.Sprintf("%d pods run %s", len(pods.Items), want))
	return &pods.Items[0]
}

// A server is the sample of an ImmortalContainer: a web server.
type server struct {
	*suite

	object *unstructured.Unstructured
	pod    *corev1.Pod
}

const (
	serverContainer = "acontainer"
	serverPort      = 80
)

// newServer creates the sample, and waits until its container serves a page.
func (s *suite) newServer() *server {
	s.t.Helper()
	objects, err := fixture.Read(filepath.Join(operators, immortal, "config/samples/example.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	v := &server{suite: s, object: objects[0]}
	s.Apply(v.object)
	v.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: v.object.GetName() + "-immortalpod"}}
	s.Eventually(v.object, testkit.Ready())
	v.checkServes()
	return v
}

func (v *server) checkServes() {
	v.t.Helper()
	v.Eventually(v.pod, testkit.Ready())
	if page, err := v.Fetch(v.pod, serverPort, "/"); err != nil || !strings.Contains(page, "nginx") {
		v.t.Errorf("the container serves %q, %v", page, err)
	}
}

// checkSurvived expects the container to be that of before an upgrade, and the new operator to count when it is killed.
func (v *server) checkSurvived() {
	v.t.Helper()
	uid := v.pod.UID
	v.checkServes()
	if v.pod.UID != uid || v.pod.Status.ContainerStatuses[0].RestartCount != 0 {
		v.t.Errorf("the pod was %s and is %s: %+v", uid, v.pod.UID, v.pod.Status.ContainerStatuses)
	}
	v.Container(v.pod, serverContainer).Kill()
	v.Eventually(v.object, testkit.Match("a restart is counted", func(u *unstructured.Unstructured) bool {
		restarts, _, _ := unstructured.NestedInt64(u.Object, "status", "containerRestarts")
		return restarts == 1
	}), testkit.Ready())
	v.checkServes()
}

func (v *server) delete() {
	v.t.Helper()
	v.Delete(v.object)
	v.Eventually(v.object, testkit.Gone())
	v.Eventually(v.pod, testkit.Gone())
}

func mailboxOf(version, name string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{}
	m.SetAPIVersion("mail.homeostat.dev/" + version)
	m.SetKind("Mailbox")
	m.SetName(name)
	return m
}

// checkMailbox creates an object in the older version. The container validates it, sets a default and converts it.
func (s *suite) checkMailbox(name string) {
	s.t.Helper()
	m := mailboxOf("v1beta1", name)
	m.Object["spec"] = map[string]any{"address": "nowhere"}
	s.Wait("the webhook to reject an object", func(ctx context.Context) error { // its Service may lag behind the pods
		invalid := m.DeepCopy()
		invalid.SetNamespace(s.Namespace)
		if err := s.Client.Create(ctx, invalid); err == nil || !strings.Contains(err.Error(), "must be an address") {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
	m.Object["spec"] = map[string]any{"address": "a@example.com"}
	s.Apply(m)
	s.Eventually(m, testkit.Ready())
	current := mailboxOf("v1", name)
	s.Get(current)
	for field, o := range map[string]*unstructured.Unstructured{"quota": m, "quotaMiB": current} {
		if quota, _, _ := unstructured.NestedInt64(o.Object, "spec", field); quota != 100 {
			s.t.Errorf("%s has no %s by default: %v", o.GetAPIVersion(), field, o.Object["spec"])
		}
	}
}

func (s *suite) deleteMailboxes(names ...string) {
	s.t.Helper()
	for _, name := range names {
		m := mailboxOf("v1", name)
		s.Delete(m)
		s.Eventually(m, testkit.Gone())
	}
}

// waitNoPods waits until the containers of a namespace have ended.
func (s *suite) waitNoPods(namespace string) {
	s.t.Helper()
	s.Wait("the pods of "+namespace+" are gone", func(ctx context.Context) error {
		var pods corev1.PodList
		err := s.Client.List(ctx, &pods, client.InNamespace(namespace))
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
}

// deleteNamespaces deletes the cluster-scoped objects of manifests that OLM does not delete.
func (s *suite) deleteNamespaces(applied []*unstructured.Unstructured) {
	s.t.Helper()
	for _, o := range applied {
		if o.GetNamespace() == "" && o.GetKind() != "ClusterExtension" {
			s.Delete(o)
			s.Eventually(o, testkit.Gone())
		}
	}
}
