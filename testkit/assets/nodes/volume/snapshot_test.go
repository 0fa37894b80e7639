//go:build linux

package volume

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

func (v *volume) snapshot(ctx context.Context) error {
	r, err := v.h.controller().CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: v.id + "-snap", SourceVolumeId: v.id})
	if size := r.GetSnapshot().GetSizeBytes(); err == nil && size != v.size {
		return fmt.Errorf("the snapshot has %d bytes", size)
	}
	return err
}

// copy returns a volume, which does not exist yet, with the snapshot of v as its source.
func (v *volume) copy(name string, size int64) *volume {
	return &volume{h: v.h, id: name, size: size, capability: v.capability, source: &csi.VolumeContentSource{
		Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: v.id + "-snap"},
		},
	}}
}

// A snapshot of a volume that is written to has a prefix of the writes, and all that were made before, synchronized or not.
func TestSnapshotWhileWriting(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, fs string) {
		h := newHost(t, "node-1")
		v := h.create("vol", fs, 64*mib)
		v.mount("node-1")
		stop, synced := v.writeNumbers("node-1")
		before := <-synced
		if err := os.WriteFile(v.path("node-1", "unsynced"), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		v.do(v.snapshot)
		stop()

		restored := v.copy("restored", 64*mib)
		v.do(restored.create)
		restored.mount("node-1") // beside its source
		content, err := os.ReadFile(restored.path("node-1", "numbers"))
		if err != nil {
			t.Fatal(err)
		}
		if kept, err := os.ReadFile(restored.path("node-1", "unsynced")); string(kept) != "kept" {
			t.Errorf("a file that was written before the snapshot has %q in the copy (%v)", kept, err)
		}
		n := uint64(0)
		for ; len(content) >= 8 && binary.BigEndian.Uint64(content) == n+1; content = content[8:] {
			n++
		}
		if n < before || len(bytes.Trim(content, "\x00")) > 0 {
			t.Errorf("the snapshot has the writes 1 to %d and then %d bytes, want at least %d writes", n, len(content), before)
		}
		restored.unmount("node-1")
		v.unmount("node-1")
		mustFail(t, v.copy("small", 32*mib).create(t.Context()), codes.OutOfRange, "not in the requested range")
	})
}

// writeNumbers appends 1, 2, 3 and so on to a file, and sends the last one that is synchronized.
func (v *volume) writeNumbers(node string) (stop func(), synced <-chan uint64) {
	v.h.t.Helper()
	file, err := os.Create(v.path(node, "numbers"))
	if err != nil {
		v.h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(v.h.t.Context())
	done, last := make(chan struct{}), make(chan uint64)
	go func() {
		defer close(done)
		defer func() { _ = file.Close() }()
		for n := uint64(1); ctx.Err() == nil; n++ {
			if _, err := file.Write(binary.BigEndian.AppendUint64(nil, n)); err != nil {
				v.h.t.Error(err)
				return
			}
			if n%100 != 0 {
				continue
			}
			if err := file.Sync(); err != nil {
				v.h.t.Error(err)
				return
			}
			select {
			case last <- n:
			default:
			}
		}
	}()
	return func() { cancel(); <-done }, last
}

func TestRestoreToLargerVolume(t *testing.T) {
	t.Parallel()
	h := newHost(t, "node-1")
	v := h.create("vol", "", 64*mib)
	v.mount("node-1")
	if err := v.write("node-1", "file", 10*mib); err != nil {
		t.Fatal(err)
	}
	v.do(v.snapshot)
	restored := v.copy("restored", 256*mib)
	v.do(restored.create)
	restored.mount("node-1")
	if err := restored.write("node-1", "large", 128*mib); err != nil {
		t.Errorf("a write that needs the size of the new volume: %v", err)
	}
	restored.unmount("node-1")
	v.unmount("node-1")
}
