//go:build linux

package volume

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The kubelet finds the socket in its folder, and asks for the one of the driver.
func TestRegistration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	plugins := filepath.Join(dir, "plugins")
	go func() {
		done <- ServeNode(ctx, filepath.Join(dir, "csi.sock"), filepath.Join(dir, "volumes"), "node-1", plugins)
	}()
	kubelet := registration.NewRegistrationClient(dial(t, filepath.Join(plugins, DriverName+"-reg.sock")))
	info, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if info.GetType() != "CSIPlugin" || info.GetName() != DriverName || len(info.GetSupportedVersions()) != 1 {
		t.Errorf("the driver registers as %v", info)
	}
	node, err := csi.NewNodeClient(dial(t, info.GetEndpoint())).
		NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{}, grpc.WaitForReady(true))
	if err != nil || node.GetNodeId() != "node-1" {
		t.Errorf("the driver is on node %q (%v)", node.GetNodeId(), err)
	}
	status := &registration.RegistrationStatus{PluginRegistered: true}
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), status); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the driver ended with %v", err)
	}
}

func TestOneControllerForEachFolder(t *testing.T) {
	t.Parallel()
	s, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := s.lockController()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = ServeController(ctx, filepath.Join(t.TempDir(), "csi.sock"), s.dir)
	if err == nil || !strings.Contains(err.Error(), "another process serves the volumes") {
		t.Errorf("a second controller ended with %v", err)
	}
	unlock()
}

func TestChooseSize(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		required, limit, atLeast, want int64
		ok                             bool
	}{
		"default":             {want: defaultSize, ok: true},
		"required":            {required: 5<<30 + 1, want: 5<<30 + sizeUnit, ok: true},
		"too small":           {required: 1, want: minimumSize, ok: true},
		"limit below minimum": {limit: 1 << 20, want: minimumSize},
		"limit below default": {limit: 100 << 20, want: 100 << 20, ok: true},
		"exact":               {required: 64 << 20, limit: 64 << 20, want: 64 << 20, ok: true},
		"larger source":       {required: 64 << 20, atLeast: 128 << 20, want: 128 << 20, ok: true},
		"limit below source":  {limit: 64 << 20, atLeast: 128 << 20, want: 128 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &csi.CapacityRange{RequiredBytes: test.required, LimitBytes: test.limit}
			if got, ok := chooseSize(r, test.atLeast); got != test.want || ok != test.ok {
				t.Errorf("got %d, %v, want %d, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

// The time from a new claim to a mounted volume, without Kubernetes.
func BenchmarkMount(b *testing.B) {
	h := newHost(b, "node-1")
	for b.Loop() {
		v := h.create("vol", "", 8<<30)
		v.mount("node-1")
		b.StopTimer()
		v.unmount("node-1")
		v.do(v.delete)
		b.StartTimer()
	}
}
