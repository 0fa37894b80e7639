//go:build linux

package volume

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
)

const mib = 1 << 20

// A host is a machine with volumes and nodes.
type host struct {
	t     testing.TB
	dir   string                 // of the volumes
	nodes map[string]*os.Process // each keeps the mount namespace of a node
	parts map[string]*part
}

// controller is the name of the controller part; the other parts have the names of their nodes.
const controller = "controller"

// newHost starts the controller part and a node part for each name. Afterwards it checks that no loop device is left.
func newHost(t testing.TB, names ...string) *host {
	t.Helper()
	return newHostIn(t, filepath.Join(t.TempDir(), "volumes"), names...)
}

func newHostIn(t testing.TB, dir string, names ...string) *host {
	t.Helper()
	needMounts(t)
	h := &host{t: t, dir: dir, nodes: map[string]*os.Process{}, parts: map[string]*part{}}
	t.Cleanup(h.stop)
	h.start(controller, 0)
	for _, name := range names {
		h.powerOn(name)
	}
	return h
}

func (h *host) stop() {
	for name := range h.parts {
		h.kill(name)
	}
	for name := range h.nodes {
		h.powerOff(name)
	}
	h.mustHaveNoLoops()
}

// needMounts skips a test unless it may mount volumes, and fails it if that is impossible.
func needMounts(t testing.TB) {
	t.Helper()
	if os.Getenv(enableEnv) != "1" {
		t.Skipf("set %s=1 to mount volumes on this machine; that needs root, loop devices and xfsprogs", enableEnv)
	}
	if os.Getenv(insideEnv) == "" {
		t.Fatal("mounting volumes needs root and mount namespaces")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Fatalf("mounting volumes needs loop devices: %v", err)
	}
}

// A part is a process of the driver.
type part struct {
	cmd    *exec.Cmd
	socket string
	conn   *grpc.ClientConn
}

// start starts the controller or the part of a node. The process kills itself after a step, unless that is 0.
func (h *host) start(name string, killAfter int) {
	h.t.Helper()
	socket := filepath.Join(h.t.TempDir(), "csi.sock")
	cmd := exec.Command(os.Args[0], controller, "--socket", socket, "--dir", h.dir)
	if name != controller {
		cmd = exec.Command("nsenter", "-m", "-t", strconv.Itoa(h.nodes[name].Pid),
			os.Args[0], "node", "--socket", socket, "--dir", h.dir, "--node-name", name)
	}
	cmd.Env = append(os.Environ(), programEnv+"=1", killEnv+"="+strconv.Itoa(killAfter))
	cmd.Stderr = h.t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, MaxDelay: 10 * time.Millisecond, Multiplier: 1},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		h.t.Fatal(err)
	}
	h.parts[name] = &part{cmd: cmd, socket: socket, conn: conn}
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	_, err = csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true))
	if err != nil {
		h.t.Fatalf("%s: %v", name, err)
	}
}

// kill kills a part, which may have ended.
func (h *host) kill(name string) {
	p := h.parts[name]
	delete(h.parts, name)
	_ = p.conn.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (h *host) restart(name string, killAfter int) {
	h.t.Helper()
	h.kill(name)
	h.start(name, killAfter)
}

// powerOn makes a node: a mount namespace, and the part of the driver in it.
func (h *host) powerOn(name string) {
	h.t.Helper()
	keeper := exec.Command("sleep", "infinity")
	keeper.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := keeper.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.nodes[name] = keeper.Process
	h.start(name, 0)
}

// keepMounts starts a process in a copy of the mount namespace of a node, as a container has one.
func (h *host) keepMounts(name string) {
	h.t.Helper()
	cmd := exec.Command("nsenter", "-m", "-t", strconv.Itoa(h.nodes[name].Pid), "unshare", "-m", "sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	started := func(context.Context) (bool, error) {
		program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
		return filepath.Base(program) == "sleep", err
	}
	if err := wait.PollUntilContextTimeout(h.t.Context(), time.Millisecond, time.Minute, true, started); err != nil {
		h.t.Fatal(err)
	}
}

// powerOff ends all processes of a node, and with them its mounts.
func (h *host) powerOff(name string) {
	h.t.Helper()
	if err := Fence(context.Background(), h.dir, name); err != nil {
		h.t.Error(err)
	}
	if h.parts[name] != nil {
		h.kill(name)
	}
	_ = h.nodes[name].Kill()
	_, _ = h.nodes[name].Wait()
	delete(h.nodes, name)
}

func (h *host) controller() csi.ControllerClient {
	return csi.NewControllerClient(h.parts[controller].conn)
}
func (h *host) node(name string) csi.NodeClient { return csi.NewNodeClient(h.parts[name].conn) }

// mustHaveNoLoops waits until the kernel has freed the loop devices of the volumes.
func (h *host) mustHaveNoLoops() {
	h.t.Helper()
	var used []string
	free := func(context.Context) (bool, error) {
		used = nil
		files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		for _, file := range files {
			if path, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(path), h.dir+"/") {
				used = append(used, filepath.Dir(filepath.Dir(file)))
			}
		}
		return len(used) == 0, err
	}
	if err := wait.PollUntilContextTimeout(context.Background(), 5*time.Millisecond, 10*time.Second, true, free); err != nil {
		h.t.Errorf("loop devices are still in use: %v (%v)", used, err)
	}
}

func capability(fs string, mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fs}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

const writer = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER

// A volume is one volume of a test, with the calls that Kubernetes makes for it.
type volume struct {
	h          *host
	id         string
	size       int64
	capability *csi.VolumeCapability
	source     *csi.VolumeContentSource
}

func (h *host) create(name, fs string, size int64) *volume {
	h.t.Helper()
	v := &volume{h: h, id: name, size: size, capability: capability(fs, writer)}
	v.do(v.create)
	return v
}

func (v *volume) create(ctx context.Context) error {
	_, err := v.h.controller().CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: v.id, VolumeCapabilities: []*csi.VolumeCapability{v.capability},
		CapacityRange: &csi.CapacityRange{RequiredBytes: v.size, LimitBytes: v.size}, VolumeContentSource: v.source,
	})
	return err
}

func (v *volume) attach(ctx context.Context, node string) error {
	_, err := v.h.controller().ControllerPublishVolume(ctx,
		&csi.ControllerPublishVolumeRequest{VolumeId: v.id, NodeId: node, VolumeCapability: v.capability})
	return err
}

func (v *volume) detach(ctx context.Context, node string) error {
	_, err := v.h.controller().ControllerUnpublishVolume(ctx,
		&csi.ControllerUnpublishVolumeRequest{VolumeId: v.id, NodeId: node})
	return err
}

func (v *volume) staging() string { return filepath.Join(filepath.Dir(v.h.dir), "staging", v.id) }
func (v *volume) target() string  { return filepath.Join(filepath.Dir(v.h.dir), "pods", v.id) }

// path returns the path of a file in the volume, as it is mounted on a node.
func (v *volume) path(node, file string) string {
	return filepath.Join("/proc", strconv.Itoa(v.h.nodes[node].Pid), "root", v.target(), file)
}

func (v *volume) stage(ctx context.Context, node string) error {
	_, err := v.h.node(node).NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging(), VolumeCapability: v.capability,
	})
	return err
}

func (v *volume) publish(ctx context.Context, node string) error {
	_, err := v.h.node(node).NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging(), TargetPath: v.target(), VolumeCapability: v.capability,
	})
	return err
}

// whileBusy repeats a call, as the kubelet does, while a process has an open file. A process that another test starts has
// the open files of this one for a moment, between fork and exec.
func whileBusy(ctx context.Context, call func() error) (err error) {
	_ = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		err = call()
		return err == nil || !strings.Contains(err.Error(), syscall.EBUSY.Error()), nil
	})
	return err
}

func (v *volume) unpublish(ctx context.Context, node string) error {
	return whileBusy(ctx, func() error {
		_, err := v.h.node(node).NodeUnpublishVolume(ctx,
			&csi.NodeUnpublishVolumeRequest{VolumeId: v.id, TargetPath: v.target()})
		return err
	})
}

func (v *volume) unstage(ctx context.Context, node string) error {
	return whileBusy(ctx, func() error {
		_, err := v.h.node(node).NodeUnstageVolume(ctx,
			&csi.NodeUnstageVolumeRequest{VolumeId: v.id, StagingTargetPath: v.staging()})
		return err
	})
}

func (v *volume) delete(ctx context.Context) error {
	_, err := v.h.controller().DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.id})
	return err
}

// do makes calls in their order.
func (v *volume) do(calls ...func(context.Context) error) {
	v.h.t.Helper()
	for _, call := range calls {
		if err := call(v.h.t.Context()); err != nil {
			v.h.t.Fatal(err)
		}
	}
}

func on(node string, call func(context.Context, string) error) func(context.Context) error {
	return func(ctx context.Context) error { return call(ctx, node) }
}

// mount attaches and mounts the volume; unmount is the reverse.
func (v *volume) mount(node string) {
	v.h.t.Helper()
	v.do(on(node, v.attach), on(node, v.stage), on(node, v.publish))
}

func (v *volume) unmount(node string) {
	v.h.t.Helper()
	v.do(on(node, v.unpublish), on(node, v.unstage), on(node, v.detach))
}

// write writes a file and synchronizes it.
func (v *volume) write(node, name string, size int) error {
	file, err := os.Create(v.path(node, name))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Write(make([]byte, size)); err != nil {
		return err
	}
	return file.Sync()
}

// must returns the result of a call that must succeed.
func must(t testing.TB) func(any, error) any {
	return func(result any, err error) any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

func mustFail(t *testing.T, err error, want codes.Code, text string) {
	t.Helper()
	if status.Code(err) != want || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("got %v, want code %s and %q", err, want, text)
	}
}
