//go:build linux

package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// A full volume takes no space of the machine and no new data, also when it is mounted again, until it grows or is freed.
func TestFill(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, name string) {
		h := newHost(t, "node-1")
		v := h.create("vol", name, 64*mib)
		v.mount("node-1")
		v.mustWrite("node-1")
		mustBeFull := func(when string) {
			t.Helper()
			if err := v.write("node-1", "small", 4096); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("a write %s: got %v, want ENOSPC", when, err)
			}
		}
		before := v.blocks()
		v.do(v.fill)
		mustBeFull("to a full volume")
		if grown := v.blocks() - before; grown > mib/512 {
			t.Errorf("filling takes %d blocks of the machine", grown)
		}
		v.unmount("node-1")
		v.mount("node-1")
		mustBeFull("to a full volume that is mounted again")
		if filesystems[name].canGrow() {
			v.do(v.enlarge, on("node-1", v.expand))
			if err := v.write("node-1", "more", 128*mib); err != nil {
				t.Errorf("a write that needs the new size: %v", err)
			}
			v.do(v.fill)
			mustBeFull("after the volume was filled again")
		}
		v.do(v.free, v.free)
		if err := v.write("node-1", "more", 40*mib); err != nil {
			t.Errorf("a write to the volume that was freed: %v", err)
		}
		v.unmount("node-1")
		v.do(v.fill)
		v.do(v.free)
		v.mount("node-1")
		if err := v.write("node-1", "more", 40*mib); err != nil {
			t.Errorf("a write to a volume that was freed before it was mounted: %v", err)
		}
		v.unmount("node-1")
		h.mustHaveNoLoops()
	})
}

// The space of a full filesystem is free again when the kernel's default is restored.
func TestFreeRestoresReserve(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, name string) {
		h := newHost(t, "node-1")
		v := h.create("vol", name, 640*mib)
		v.mount("node-1")
		free := func() int64 {
			n, err := freeBytes(v.path("node-1", "."))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := free()
		v.do(v.fill)
		if n := free(); n != 0 {
			t.Errorf("a full volume has %d free bytes", n)
		}
		v.do(v.free)
		if after := free(); after-before > mib || before-after > mib {
			t.Errorf("%d bytes are free, %d were before", after, before)
		}
		v.unmount("node-1")
	})
}

func TestFillMissingVolume(t *testing.T) {
	t.Parallel()
	if err := Fill(t.Context(), t.TempDir(), "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
}

func (v *volume) fill(ctx context.Context) error { return Fill(ctx, v.h.dir, v.id) }
func (v *volume) free(ctx context.Context) error { return Free(ctx, v.h.dir, v.id) }

// blocks returns the size of the volume on the machine's disk, in units of 512 bytes.
func (v *volume) blocks() int64 {
	v.h.t.Helper()
	info, err := os.Stat((&store{dir: v.h.dir}).path(volumes, v.id, "data"))
	if err != nil {
		v.h.t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks
}
