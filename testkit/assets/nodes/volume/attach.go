//go:build linux

package volume

import (
	"context"
	"errors"
	"io/fs"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (s *controllerServer) ControllerPublishVolume(
	ctx context.Context, r *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	id, node := r.GetVolumeId(), r.GetNodeId()
	if id == "" || node == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the node ID is missing")
	}
	if reason := checkCapability(r.GetVolumeCapability()); reason != "" {
		return nil, status.Error(codes.InvalidArgument, reason)
	}
	if r.GetReadonly() {
		return nil, status.Error(codes.InvalidArgument, "a volume cannot be attached for reading only")
	}
	e, unlock, err := s.lockVolume(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	switch {
	case !s.store.hasNode(node):
		return nil, status.Errorf(codes.NotFound, "the driver does not run on node %s", node)
	case e.node == node:
		return &csi.ControllerPublishVolumeResponse{}, nil
	case e.node != "":
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to node %s", id, e.node)
	}
	if err := s.store.setNode(e, node); err != nil {
		return nil, rpcError(err, "attaching volume "+id)
	}
	afterStep()
	return &csi.ControllerPublishVolumeResponse{}, nil
}

func (s *controllerServer) ControllerUnpublishVolume(
	ctx context.Context, r *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	id := r.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID is missing")
	}
	e, unlock, err := s.store.lock(ctx, volumes, id)
	if errors.Is(err, fs.ErrNotExist) {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if err != nil {
		return nil, rpcError(err, "detaching volume "+id)
	}
	defer unlock()
	if e.node == "" || r.GetNodeId() != "" && r.GetNodeId() != e.node {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if err := s.store.detach(e); err != nil {
		return nil, rpcError(err, "detaching volume "+id)
	}
	if err := s.store.setNode(e, ""); err != nil {
		return nil, rpcError(err, "detaching volume "+id)
	}
	afterStep()
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// detach shuts down the filesystem of a volume wherever it is mounted, so that nothing writes to its file again.
func (s *store) detach(e *entry) error {
	loops, err := findLoops(s.data(e))
	for _, l := range loops {
		err = errors.Join(err, e.filesystem.shutDownLoop(l))
		l.close()
	}
	return err
}

func (f *filesystem) shutDownLoop(l *loop) error {
	root, err := f.open(l.path)
	if errors.Is(err, unix.EIO) { // it was shut down before, or has shut itself down after an error
		return l.markDetached()
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := thaw(root); err != nil {
		return err
	}
	if err := shutDown(root); err != nil {
		return err
	}
	afterStep()
	return l.markDetached()
}

// Fence ends all writes of a node that has lost its power, and of all nodes if node is empty. The volumes stay attached to
// the node. Data that its processes have not synchronized is lost, as on a real disk.
//
// It waits for the end of ctx, with code Aborted, while another operation on a volume is in progress. The folder dir of the
// volumes need not exist.
func Fence(ctx context.Context, dir, node string) error {
	s := &store{dir: dir}
	list, err := s.list(volumes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		if node == "" || node == e.node {
			err = errors.Join(err, s.fence(ctx, e.id))
		}
	}
	return err
}

func (s *store) fence(ctx context.Context, id string) error {
	e, unlock, err := s.lock(ctx, volumes, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return s.detach(e)
}
