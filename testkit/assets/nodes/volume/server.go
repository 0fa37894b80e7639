//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// ServeController serves the Identity and Controller services of the volumes in folder dir on a unix socket, until ctx ends.
// It completes or undoes the interrupted calls of a killed process before. It returns an error if another process serves the
// folder.
func ServeController(ctx context.Context, socket, dir string) error {
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	unlock, err := s.lockController()
	if err != nil {
		return err
	}
	defer unlock()
	if err := errors.Join(s.thawAll(ctx), s.removeIncomplete()); err != nil {
		return err
	}
	server := newServer()
	csi.RegisterControllerServer(server, &controllerServer{store: s})
	return serve(ctx, server, socket)
}

// lockController makes this process the only one that serves the controller part.
func (s *store) lockController() (unlock func(), err error) {
	dir, err := os.Open(filepath.Join(s.dir, "incomplete"))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("another process serves the volumes in %s: %w", s.dir, err)
	}
	return func() { _ = dir.Close() }, nil
}

// ServeNode serves the Identity and Node services of a node on a unix socket, until ctx ends. It registers the driver with
// the kubelet that watches the folder plugins, unless that is empty. It must run in the mount namespace of the kubelet.
func ServeNode(ctx context.Context, socket, dir, node, plugins string) error {
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	if node == "" || filepath.Base(node) != node {
		return fmt.Errorf("%q is not the name of a node", node)
	}
	if err := s.addNode(node); err != nil {
		return err
	}
	server := newServer()
	csi.RegisterNodeServer(server, &nodeServer{store: s, name: node})
	if plugins == "" {
		return serve(ctx, server, socket)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		registrar := grpc.NewServer()
		registration.RegisterRegistrationServer(registrar, &registrationServer{endpoint: socket})
		cancel(serve(ctx, registrar, filepath.Join(plugins, DriverName+"-reg.sock")))
	}()
	err = serve(ctx, server, socket)
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

func newServer() *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(logErrors))
	csi.RegisterIdentityServer(server, identityServer{})
	return server
}

func logErrors(ctx context.Context, r any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, r)
	if err != nil {
		slog.ErrorContext(ctx, "call failed", "method", filepath.Base(info.FullMethod), "error", err)
	}
	return response, err
}

// serve serves until ctx ends, and finishes the calls in progress. A socket that a killed process has left is replaced.
func serve(ctx context.Context, server *grpc.Server, socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, server.GracefulStop)()
	return server.Serve(listener)
}
