//go:build linux

package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

func eachFilesystem(t *testing.T, test func(t *testing.T, fs string)) {
	t.Helper()
	for name := range filesystems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

func TestSizeIsEnforced(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, fs string) {
		h := newHost(t, "node-1")
		v := h.create("vol", fs, 64*mib)
		v.mount("node-1")
		if err := v.write("node-1", "fits", 40*mib); err != nil {
			t.Fatal(err)
		}
		if err := v.write("node-1", "too-large", 40*mib); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a write beyond the size of the volume: got %v, want ENOSPC", err)
		}
		stats := must(t)(h.node("node-1").NodeGetVolumeStats(t.Context(),
			&csi.NodeGetVolumeStatsRequest{VolumeId: v.id, VolumePath: v.target()})).(*csi.NodeGetVolumeStatsResponse)
		if total := stats.GetUsage()[0].GetTotal(); total < 40*mib || total > 64*mib {
			t.Errorf("the filesystem has %d bytes, want at most 64 MiB", total)
		}
		v.unmount("node-1")
		h.mustHaveNoLoops()
		v.do(v.delete)
		if left, err := filepath.Glob(filepath.Join(h.dir, "*", "*")); err != nil || len(left) != 1 { // nodes/node-1
			t.Errorf("a deleted volume left %v (%v)", left, err)
		}
	})
}

func TestGrowthWhileWriting(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, fs string) {
		h := newHost(t, "node-1")
		v := h.create("vol", fs, 64*mib)
		v.mount("node-1")
		if !filesystems[fs].canGrow() {
			mustFail(t, v.enlarge(t.Context()), codes.FailedPrecondition, "ext4 grows only with CAP_SYS_RESOURCE")
			v.do(v.snapshot)
			err := v.copy("larger", 256*mib).create(t.Context())
			mustFail(t, err, codes.FailedPrecondition, "ext4 grows only with CAP_SYS_RESOURCE")
			v.unmount("node-1")
			return
		}
		var writes atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			for ctx.Err() == nil {
				if err := v.write("node-1", "log", mib); err != nil {
					done <- err
					return
				}
				writes.Add(1)
			}
			done <- nil
		}()
		v.do(v.enlarge, on("node-1", v.expand))
		for before := writes.Load(); writes.Load() < before+3 && len(done) == 0; {
			continue
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("a write during the growth failed: %v", err)
		}
		if err := v.write("node-1", "large", 128*mib); err != nil {
			t.Errorf("a write that needs the new size: %v", err)
		}
		v.unmount("node-1")
	})
}

// enlarge expands a volume to 256 MiB, but not its filesystem.
func (v *volume) enlarge(ctx context.Context) error {
	_, err := v.h.controller().ControllerExpandVolume(ctx,
		&csi.ControllerExpandVolumeRequest{VolumeId: v.id, CapacityRange: &csi.CapacityRange{RequiredBytes: 256 * mib}})
	return err
}

func (v *volume) expand(ctx context.Context, node string) error {
	_, err := v.h.node(node).NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: v.id, VolumePath: v.target()})
	return err
}

func TestGrowthWhileDetached(t *testing.T) {
	t.Parallel()
	h := newHost(t, "node-1")
	v := h.create("vol", "", 64*mib)
	v.do(v.enlarge)
	v.mount("node-1")
	if err := v.write("node-1", "large", 128*mib); err != nil {
		t.Errorf("a write that needs the new size: %v", err)
	}
	v.unmount("node-1")
}

func TestVolumeIsAttachedToOneNode(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, fs string) {
		h := newHost(t, "node-1", "node-2")
		v := h.create("vol", fs, 64*mib)
		v.mount("node-1")
		mustFail(t, v.attach(t.Context(), "node-2"), codes.FailedPrecondition, "is attached to node node-1")
		mustFail(t, v.stage(t.Context(), "node-2"), codes.FailedPrecondition, "is not attached to node node-2")
		mustFail(t, v.attach(t.Context(), "node-3"), codes.NotFound, "does not run on node node-3")
		mustFail(t, v.delete(t.Context()), codes.FailedPrecondition, "is attached to node node-1")
		v.do(on("node-1", v.attach)) // again
		if err := v.write("node-1", "synced", mib); err != nil {
			t.Fatal(err)
		}

		// node-1 does not answer, and Kubernetes detaches the volume while it is mounted.
		open, err := os.Create(v.path("node-1", "open"))
		if err != nil {
			t.Fatal(err)
		}
		v.do(on("node-1", v.detach))
		_, err = open.WriteString("lost")
		if err = errors.Join(err, open.Sync(), open.Close()); !errors.Is(err, syscall.EIO) {
			t.Errorf("a write by the old node: got %v, want EIO", err)
		}
		v.mount("node-2")
		info, err := os.Stat(v.path("node-2", "synced"))
		if err != nil || info.Size() != mib {
			t.Errorf("the new node sees %v (%v), want the file of the old one", info, err)
		}
		v.unmount("node-2")

		// node-1 is back, with mounts that are dead.
		v.mount("node-1")
		if err := v.write("node-1", "again", mib); err != nil {
			t.Error(err)
		}
		v.unmount("node-1")
	})
}

func TestPowerLoss(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, fs string) {
		h := newHost(t, "node-1")
		v := h.create("vol", fs, 64*mib)
		v.mount("node-1")
		if err := v.write("node-1", "synced", mib); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(v.path("node-1", "unsynced"), []byte("lost"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.powerOff("node-1")
		h.mustHaveNoLoops()
		h.powerOn("node-1")
		v.mount("node-1")
		if info, err := os.Stat(v.path("node-1", "synced")); err != nil || info.Size() != mib {
			t.Errorf("a synchronized file after a power loss: %v (%v)", info, err)
		}
		if content, err := os.ReadFile(v.path("node-1", "unsynced")); err == nil && len(content) > 0 {
			t.Error("data that was never synchronized has survived a power loss")
		}
		v.unmount("node-1")
	})
}

// A container that has not ended when its pod is gone has a copy of the mount. It loses the volume; no data is lost.
func TestMountThatOutlivesItsPod(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, fs string) {
		h := newHost(t, "node-1")
		v := h.create("vol", fs, 64*mib)
		v.mount("node-1")
		h.keepMounts("node-1")
		if err := os.WriteFile(v.path("node-1", "unsynced"), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		v.unmount("node-1")
		v.mount("node-1")
		if kept, err := os.ReadFile(v.path("node-1", "unsynced")); string(kept) != "kept" {
			t.Errorf("a file that was written before the end of the pod has %q (%v)", kept, err)
		}
		v.unmount("node-1")
	})
}

// A node part that is killed leaves its mounts, which belong to the mount namespace of the node.
func TestRestartOfNodePart(t *testing.T) {
	t.Parallel()
	h := newHost(t, "node-1")
	v := h.create("vol", "", 64*mib)
	v.mount("node-1")
	open, err := os.Create(v.path("node-1", "open"))
	if err != nil {
		t.Fatal(err)
	}
	h.restart("node-1", 0)
	v.do(on("node-1", v.stage), on("node-1", v.publish)) // again
	_, err = open.WriteString("kept")
	if err := errors.Join(err, open.Sync(), open.Close()); err != nil {
		t.Errorf("a write by a process that has run all the time: %v", err)
	}
	if kept, err := os.ReadFile(v.path("node-1", "open")); string(kept) != "kept" {
		t.Errorf("the file has %q (%v)", kept, err)
	}
	v.unmount("node-1")
}

func TestVolumeForOnePod(t *testing.T) {
	t.Parallel()
	h := newHost(t, "node-1")
	v := h.create("vol", "", 64*mib)
	v.capability = capability("", csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
	v.mount("node-1")
	_, err := h.node("node-1").NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging(), TargetPath: v.target() + "-2", VolumeCapability: v.capability,
	})
	mustFail(t, err, codes.FailedPrecondition, "is for one pod")
	v.unmount("node-1")
}

func TestReadOnlyMount(t *testing.T) {
	t.Parallel()
	h := newHost(t, "node-1")
	v := h.create("vol", "", 64*mib)
	v.do(on("node-1", v.attach), on("node-1", v.stage), on("node-1", v.publish))
	must(t)(h.node("node-1").NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: v.id, StagingTargetPath: v.staging(), TargetPath: v.target(), VolumeCapability: v.capability, Readonly: true,
	}))
	if err := v.write("node-1", "file", 1); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a write to a read-only mount: got %v, want EROFS", err)
	}
	v.unmount("node-1")
}

func TestFullHost(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, fs string) {
		needMounts(t)
		dir := filepath.Join(t.TempDir(), "small")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=40m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		h := newHostIn(t, filepath.Join(dir, "volumes"), "node-1")
		v := h.create("vol", fs, 64*mib)
		v.mount("node-1")
		if err := v.write("node-1", "file", 20*mib); err != nil {
			t.Fatal(err)
		}
		service := h.controller()
		_, err := service.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: v.id})
		mustFail(t, err, codes.ResourceExhausted, "no space left on device")
		filler := filepath.Join(dir, "filler")
		file, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = file.Write(make([]byte, 4096))
		}
		_ = file.Close()
		_, err = service.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
			Name: "other", VolumeCapabilities: []*csi.VolumeCapability{v.capability},
		})
		mustFail(t, err, codes.ResourceExhausted, "no space left on device")
		for _, kind := range []string{"snapshots", "incomplete", "volumes/other"} {
			if left, err := filepath.Glob(filepath.Join(h.dir, kind, "*")); err != nil || len(left) > 0 {
				t.Errorf("a failed call left %v (%v)", left, err)
			}
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		h.create("other", fs, 64*mib)
		v.unmount("node-1")
	})
}
