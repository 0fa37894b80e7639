//go:build linux

package volume

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Each part of the driver is killed after a step of each call, started again, and gets the call again.
func TestKilledAfterEachStep(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, func(t *testing.T, fs string) {
		for step := 1; ; step++ {
			killed := 0
			t.Run(strconv.Itoa(step), func(t *testing.T) { killed = killAfter(t, step, fs) })
			if killed == 0 { // no call has as many steps
				break
			}
		}
	})
}

// killAfter kills the driver after a step of each call, and returns how often a call had as many steps.
func killAfter(t *testing.T, step int, fs string) (killed int) {
	t.Helper()
	const node = "node-1"
	h := newHost(t, node)
	v := &volume{h: h, id: "vol", size: 64 * mib, capability: capability(fs, writer)}
	restored := v.copy("restored", 64*mib)
	call := func(part string, f func(context.Context) error) {
		t.Helper()
		h.restart(part, step)
		err := f(t.Context())
		if status.Code(err) == codes.Unavailable { // the connection is lost
			killed++
			h.restart(part, 0)
			err = f(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	call(controller, v.create)
	call(controller, on(node, v.attach))
	call(node, on(node, v.stage))
	call(node, on(node, v.publish))
	v.mustWrite(node)
	call(controller, v.snapshot)
	v.mustWrite(node)
	call(controller, restored.create)
	call(node, on(node, v.unpublish))
	call(node, on(node, v.unstage))
	call(controller, on(node, v.detach))
	h.mustHaveNoLoops()
	call(controller, v.delete)

	h.restart(controller, 0)
	h.restart(node, 0)
	restored.mount(node)
	restored.mustWrite(node)
	call(controller, on(node, restored.detach)) // while it is mounted
	h.restart(controller, 0)
	v.do(on(node, restored.attach))
	call(node, on(node, restored.stage)) // replaces the dead mount
	call(node, on(node, restored.publish))
	restored.mustWrite(node)
	h.restart(node, 0)
	restored.unmount(node)
	if left, err := filepath.Glob(filepath.Join(h.dir, "incomplete", "*")); err != nil || len(left) > 0 {
		t.Errorf("%v was left (%v)", left, err)
	}
	return killed
}

func (v *volume) mustWrite(node string) {
	v.h.t.Helper()
	if err := v.write(node, "file", 5*mib); err != nil {
		v.h.t.Fatal(err)
	}
}
