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

type nodeServer struct {
	csi.UnimplementedNodeServer

	store *store
	name  string
}

func (s *nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.name}, nil
}

func (s *nodeServer) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	var list []*csi.NodeServiceCapability
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		list = append(list, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
			Rpc: &csi.NodeServiceCapability_RPC{Type: c},
		}})
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: list}, nil
}

func (s *nodeServer) NodeStageVolume(
	ctx context.Context, r *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	id, path := r.GetVolumeId(), r.GetStagingTargetPath()
	if id == "" || path == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the staging path is missing")
	}
	if reason := checkCapability(r.GetVolumeCapability()); reason != "" {
		return nil, status.Error(codes.InvalidArgument, reason)
	}
	e, unlock, err := s.store.lock(ctx, volumes, id)
	if err != nil {
		return nil, noVolume(err, id)
	}
	defer unlock()
	if e.node != s.name {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not attached to node %s", id, s.name)
	}
	if fs := filesystemOf([]*csi.VolumeCapability{r.GetVolumeCapability()}); fs != "" && fs != e.Filesystem {
		return nil, status.Errorf(codes.InvalidArgument, "volume %s has filesystem %s", id, e.Filesystem)
	}
	if err := s.stage(e, path, r.GetVolumeCapability().GetMount().GetMountFlags()); err != nil {
		return nil, rpcError(err, "mounting volume "+id)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// stage mounts a volume that is attached to this node and locked.
func (s *nodeServer) stage(e *entry, path string, flags []string) error {
	device, err := mountedDevice(path)
	if err != nil {
		return err
	}
	loops, err := findLoops(s.store.data(e))
	if err != nil {
		return err
	}
	staged := false
	for _, l := range loops {
		if l.path == device {
			staged = true
		} else { // a mount of a node that had lost its power, or of another mount namespace
			err = errors.Join(err, e.filesystem.shutDownLoop(l))
		}
		l.close()
	}
	if err != nil {
		return err
	}
	if staged {
		return e.filesystem.growMounted(device, path, e.size)
	}
	if device != "" { // its filesystem was shut down
		if err := unmount(path); err != nil {
			return err
		}
	}
	if err := e.filesystem.mountFile(s.store.data(e), path, e.size, flags); err != nil {
		return err
	}
	if err := s.store.fillAgain(e); err != nil {
		return errors.Join(err, unmount(path))
	}
	return nil
}

func (s *nodeServer) NodeUnstageVolume(
	ctx context.Context, r *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	id := r.GetVolumeId()
	if id == "" || r.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the staging path is missing")
	}
	_, unlock, err := s.store.lock(ctx, volumes, id) // a snapshot may be in progress
	switch {
	case err == nil:
		defer unlock()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, rpcError(err, "unmounting volume "+id)
	}
	// A container that is about to end may keep a copy of the mount, and then unmounting does not synchronize.
	if err := synchronize(r.GetStagingTargetPath()); err != nil {
		return nil, rpcError(err, "unmounting volume "+id)
	}
	if err := unmount(r.GetStagingTargetPath()); err != nil {
		return nil, rpcError(err, "unmounting volume "+id)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (s *nodeServer) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	id, staging, target := r.GetVolumeId(), r.GetStagingTargetPath(), r.GetTargetPath()
	if id == "" || staging == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID, the staging path or the target path is missing")
	}
	if reason := checkCapability(r.GetVolumeCapability()); reason != "" {
		return nil, status.Error(codes.InvalidArgument, reason)
	}
	if _, err := s.store.get(volumes, id); err != nil {
		return nil, noVolume(err, id)
	}
	device, err := mountedDevice(staging)
	if err != nil {
		return nil, rpcError(err, "mounting volume "+id)
	}
	if device == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not mounted at the staging path %s", id, staging)
	}
	mode := r.GetVolumeCapability().GetAccessMode().GetMode()
	if mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		other, err := otherMount(device, staging, target)
		if err != nil {
			return nil, rpcError(err, "mounting volume "+id)
		}
		if other != "" {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is for one pod and is mounted at %s", id, other)
		}
	}
	readOnly := r.GetReadonly() || mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	if err := bind(staging, device, target, readOnly); err != nil {
		return nil, rpcError(err, "mounting volume "+id)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (s *nodeServer) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	target := r.GetTargetPath()
	if r.GetVolumeId() == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the target path is missing")
	}
	err := unmount(target)
	if err == nil {
		err = unix.Rmdir(target)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, rpcError(err, "unmounting volume "+r.GetVolumeId())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (s *nodeServer) NodeExpandVolume(
	_ context.Context, r *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	id, path := r.GetVolumeId(), r.GetVolumePath()
	if id == "" || path == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the volume path is missing")
	}
	e, err := s.store.get(volumes, id)
	if err != nil {
		return nil, noVolume(err, id)
	}
	device, err := mountedDevice(path)
	if err != nil {
		return nil, rpcError(err, "expanding volume "+id)
	}
	if device == "" {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", id, path)
	}
	if err := e.filesystem.growMounted(device, path, e.size); err != nil {
		return nil, rpcError(err, "expanding volume "+id)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: e.size}, nil
}

func (s *nodeServer) NodeGetVolumeStats(
	_ context.Context, r *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	id, path := r.GetVolumeId(), r.GetVolumePath()
	if id == "" || path == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the volume path is missing")
	}
	device, err := mountedDevice(path)
	if err != nil {
		return nil, rpcError(err, "reading the usage of volume "+id)
	}
	if device == "" {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", id, path)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return nil, rpcError(err, "reading the usage of volume "+id)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
		Unit:  csi.VolumeUsage_BYTES,
		Total: bytesOf(fs.Blocks, fs.Bsize), Available: bytesOf(fs.Bavail, fs.Bsize), Used: bytesOf(fs.Blocks-fs.Bfree, fs.Bsize),
	}, {
		Unit:  csi.VolumeUsage_INODES,
		Total: bytesOf(fs.Files, 1), Available: bytesOf(fs.Ffree, 1), Used: bytesOf(fs.Files-fs.Ffree, 1),
	}}}, nil
}
