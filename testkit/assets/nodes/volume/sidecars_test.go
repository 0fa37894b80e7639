//go:build linux

package volume

import (
	"context"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/volumeobjects"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// className is the name of the storage class in this test, beside the one of the simulated nodes.
const className = "block"

// A claim is bound, attached to a node by a VolumeAttachment, mounted by the node part in place of a kubelet, expanded,
// copied by a snapshot, and deleted.
func TestSidecars(t *testing.T) {
	t.Parallel()
	const node = "node-0"
	h := newHost(t, node)
	k := startSidecars(t, h)
	claim := k.claim("data", "64Mi", nil)
	k.until("the claim is bound", claim, func() bool { return claim.Status.Phase == corev1.ClaimBound })
	v := &volume{h: h, id: k.handle(claim), capability: capability("", writer)}

	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	attachment.Spec = storagev1.VolumeAttachmentSpec{Attacher: DriverName, NodeName: node}
	attachment.Spec.Source.PersistentVolumeName = &claim.Spec.VolumeName
	k.create(attachment)
	k.until("the volume is attached", attachment, func() bool { return attachment.Status.Attached })
	v.do(on(node, v.stage), on(node, v.publish))
	v.mustWrite(node)

	k.patch(claim, `{"spec":{"resources":{"requests":{"storage":"256Mi"}}}}`)
	k.until("the volume is expanded", claim, func() bool {
		return claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimNodeResizePending
	})
	v.do(on(node, v.expand)) // as the kubelet does
	if err := v.write(node, "large", 128*mib); err != nil {
		t.Errorf("a write that needs the new size: %v", err)
	}

	snapshot := k.snapshot("snap", claim)
	k.until("the snapshot is ready", snapshot, func() bool {
		ready, _, _ := unstructured.NestedBool(snapshot.Object, "status", "readyToUse")
		return ready
	})
	group := "snapshot.storage.k8s.io"
	source := &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "snap"}
	restored := k.claim("restored", "256Mi", source)
	k.until("the copy is bound", restored, func() bool { return restored.Status.Phase == corev1.ClaimBound })
	copied := &volume{h: h, id: k.handle(restored), capability: v.capability}
	copied.mount(node)
	if _, err := os.Stat(copied.path(node, "large")); err != nil {
		t.Errorf("the copy lacks a file of the snapshot: %v", err)
	}
	copied.unmount(node)

	v.do(on(node, v.unpublish), on(node, v.unstage))
	k.delete(attachment, snapshot, restored, claim)
	k.untilEmpty()
}

// A testCluster has the driver and its sidecars.
type testCluster struct {
	t    *testing.T
	host *host
	client.Client
}

func startSidecars(t *testing.T, h *host) *testCluster {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Programs: cluster.Programs(cluster.Workloads)})
	if err != nil {
		t.Fatal(err)
	}
	program := buildSidecars(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Tier: cluster.Workloads, Nodes: 1, Binaries: set.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	log.SetLogger(logr.Discard())
	k := &testCluster{t: t, host: h}
	if k.Client, err = client.New(c.Config(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	k.apply(volumeobjects.Definitions())
	named := strings.ReplaceAll(volumeobjects.Classes, "name: standard", "name: "+className)
	k.apply(strings.ReplaceAll(named, `: "true"`, `: "false"`))
	k.registerNode("node-0")

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	data, err := cluster.Kubeconfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--kubeconfig", kubeconfig, "--csi-address", h.parts[controller].socket)
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the sidecars ended with an error: %v", err)
		}
	})
	return k
}

// buildSidecars builds the module in folder sidecars, as the user's machine does.
func buildSidecars(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range sidecarFiles(t) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "sidecars")
	goCommand(t, dir, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, ".")

	// The definitions are those of the library.
	const snapshotter = "github.com/kubernetes-csi/external-snapshotter/client/v8"
	library := strings.TrimSpace(goCommand(t, dir, "list", "-m", "-f", "{{.Dir}}", snapshotter))
	for _, name := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		want, err := os.ReadFile(filepath.Join(library, "config/crd/snapshot.storage.k8s.io_"+name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(volumeobjects.Definitions(), string(want)) {
			t.Errorf("volumeobjects/%s.yaml differs from the file of %s", name, library)
		}
	}
	return program
}

func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", args[0], err)
	}
	return string(out)
}

// sidecarFiles returns the files of the module. Their names keep it from being a module in this repository.
func sidecarFiles(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("sidecars/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".txt")] = data
	}
	return files
}

// Linters do not see the module.
func TestSidecarsAreFormatted(t *testing.T) {
	t.Parallel()
	for name, data := range sidecarFiles(t) {
		if filepath.Ext(name) != ".go" {
			continue
		}
		formatted, err := format.Source(data)
		if err != nil || string(formatted) != string(data) {
			t.Errorf("%s is not formatted (%v)", name, err)
		}
	}
}

// registerNode does what the kubelet does when the node part has registered.
func (k *testCluster) registerNode(name string) {
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Spec.Drivers = []storagev1.CSINodeDriver{{Name: DriverName, NodeID: name, TopologyKeys: []string{}}}
	k.create(node)
}

func (k *testCluster) apply(documents string) {
	k.t.Helper()
	for document := range strings.SplitSeq(documents, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			k.t.Fatal(err)
		}
		if len(object.Object) == 0 {
			continue
		}
		k.eventually("applying "+object.GetName(), func(ctx context.Context) (bool, error) {
			err := k.Create(ctx, object)
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return false, nil // its kind is not served yet
			}
			return err == nil, err
		})
	}
}

func (k *testCluster) claim(name, size string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	class := className
	claim.Spec.StorageClassName = &class
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	claim.Spec.DataSource = source
	k.create(claim)
	return claim
}

func (k *testCluster) snapshot(name string, of *corev1.PersistentVolumeClaim) *unstructured.Unstructured {
	snapshot := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
		"metadata": map[string]any{"namespace": of.Namespace, "name": name},
		"spec": map[string]any{
			"volumeSnapshotClassName": className, "source": map[string]any{"persistentVolumeClaimName": of.Name},
		},
	}}
	k.create(snapshot)
	return snapshot
}

// handle returns the ID of the volume of a bound claim.
func (k *testCluster) handle(claim *corev1.PersistentVolumeClaim) string {
	k.t.Helper()
	volume := &corev1.PersistentVolume{}
	if err := k.Get(k.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		k.t.Fatal(err)
	}
	return volume.Spec.CSI.VolumeHandle
}

func (k *testCluster) create(object client.Object) {
	k.t.Helper()
	if err := k.Create(k.t.Context(), object); err != nil {
		k.t.Fatal(err)
	}
}

func (k *testCluster) patch(object client.Object, patch string) {
	k.t.Helper()
	if err := k.Patch(k.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		k.t.Fatal(err)
	}
}

// delete deletes objects and waits until each is gone.
func (k *testCluster) delete(objects ...client.Object) {
	k.t.Helper()
	for _, object := range objects {
		if err := k.Delete(k.t.Context(), object); err != nil {
			k.t.Fatal(err)
		}
		k.eventually(object.GetName()+" is gone", func(ctx context.Context) (bool, error) {
			err := k.Get(ctx, client.ObjectKeyFromObject(object), object)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}
}

// untilEmpty waits until the driver has no volume and no snapshot.
func (k *testCluster) untilEmpty() {
	k.t.Helper()
	s := &store{dir: k.host.dir}
	k.eventually("the driver has deleted everything", func(context.Context) (bool, error) {
		left, err := s.list(volumes)
		if err != nil {
			return false, err
		}
		more, err := s.list(snapshots)
		return len(left)+len(more) == 0, err
	})
}

func (k *testCluster) until(what string, object client.Object, condition func() bool) {
	k.t.Helper()
	k.eventually(what, func(ctx context.Context) (bool, error) {
		err := k.Get(ctx, client.ObjectKeyFromObject(object), object)
		return err == nil && condition(), err
	})
}

func (k *testCluster) eventually(what string, condition wait.ConditionWithContextFunc) {
	k.t.Helper()
	began := time.Now()
	if err := wait.PollUntilContextTimeout(k.t.Context(), 20*time.Millisecond, time.Minute, true, condition); err != nil {
		k.t.Fatalf("%s: %v", what, err)
	}
	k.t.Log(what, fmt.Sprintf("after %v", time.Since(began).Round(time.Millisecond)))
}
