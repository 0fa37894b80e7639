//go:build linux

package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type controllerServer struct {
	csi.UnimplementedControllerServer

	store *store
}

func (s *controllerServer) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	var list []*csi.ControllerServiceCapability
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		list = append(list, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: c},
		}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: list}, nil
}

func (s *controllerServer) CreateVolume(
	ctx context.Context, r *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	if r.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "the name of the volume is missing")
	}
	if reason := checkCapabilities(r.GetVolumeCapabilities()); reason != "" {
		return nil, status.Error(codes.InvalidArgument, reason)
	}
	for name := range r.GetParameters() {
		return nil, status.Errorf(codes.InvalidArgument, "storage class parameter %q is not supported", name)
	}
	var source *entry
	if content := r.GetVolumeContentSource(); content != nil {
		var err error
		if source, err = s.source(content); err != nil {
			return nil, err
		}
	}
	e, err := s.createVolume(ctx, r, source)
	if err != nil {
		return nil, rpcError(err, "creating volume "+r.GetName())
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: e.id, CapacityBytes: e.size, ContentSource: r.GetVolumeContentSource(),
	}}, nil
}

// source returns the entry that a new volume is a copy of.
func (s *controllerServer) source(content *csi.VolumeContentSource) (*entry, error) {
	var kind, id string
	switch {
	case content.GetSnapshot() != nil:
		kind, id = snapshots, content.GetSnapshot().GetSnapshotId()
	case content.GetVolume() != nil:
		kind, id = volumes, content.GetVolume().GetVolumeId()
	default:
		return nil, status.Error(codes.InvalidArgument, "the source of the volume is neither a snapshot nor a volume")
	}
	e, err := s.store.get(kind, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "the source of the volume does not exist: %s/%s", kind, id)
	}
	return e, rpcError(err, "reading the source of the volume")
}

func (s *controllerServer) createVolume(ctx context.Context, r *csi.CreateVolumeRequest, source *entry) (*entry, error) {
	meta, err := recordOf(r, source)
	if err != nil {
		return nil, err
	}
	id := idOf(meta.Name)
	e, err := s.store.get(volumes, id)
	if errors.Is(err, fs.ErrNotExist) {
		err = s.store.create(volumes, id, meta, func(data string) error { return s.fill(ctx, data, r, meta, source) })
		if err != nil && !errors.Is(err, errExists) {
			return nil, err
		}
		e, err = s.store.get(volumes, id)
	}
	if err != nil {
		return nil, err
	}
	if e.Source != meta.Source || e.Filesystem != meta.Filesystem || !isWithin(r.GetCapacityRange(), e.size) {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s exists with another size, source or filesystem", e.id)
	}
	return e, nil
}

// recordOf returns the record of a new volume, which is a copy of source unless that is nil.
func recordOf(r *csi.CreateVolumeRequest, source *entry) (record, error) {
	meta := record{Name: r.GetName(), Created: time.Now(), Filesystem: filesystemOf(r.GetVolumeCapabilities())}
	switch {
	case source != nil && meta.Filesystem != "" && meta.Filesystem != source.Filesystem:
		return meta, status.Errorf(codes.InvalidArgument, "the source of the volume has filesystem %s", source.Filesystem)
	case source != nil:
		meta.Source = source.kind + "/" + source.id
		meta.Filesystem = source.Filesystem
	case meta.Filesystem == "":
		meta.Filesystem = defaultFilesystem()
	}
	return meta, nil
}

// fill writes the data of a new volume.
func (s *controllerServer) fill(
	ctx context.Context, data string, r *csi.CreateVolumeRequest, meta record, source *entry,
) error {
	sourceSize := int64(0)
	if source != nil {
		sourceSize = source.size
	}
	size, ok := chooseSize(r.GetCapacityRange(), sourceSize)
	switch {
	case !ok:
		return outOfRange(meta.Name, size)
	case source == nil:
		if err := os.WriteFile(data, nil, 0o600); err != nil {
			return err
		}
		afterStep()
	case size > source.size && !source.filesystem.canGrow():
		return errCannotGrow
	default:
		if err := s.copyEntry(ctx, source, data); err != nil {
			return err
		}
	}
	if err := os.Truncate(data, size); err != nil {
		return err
	}
	afterStep()
	if source != nil {
		return nil // NodeStageVolume grows the filesystem
	}
	return filesystems[meta.Filesystem].create(ctx, data)
}

func (s *controllerServer) DeleteVolume(
	ctx context.Context, r *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID is missing")
	}
	e, unlock, err := s.store.lock(ctx, volumes, r.GetVolumeId())
	if errors.Is(err, fs.ErrNotExist) {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err != nil {
		return nil, rpcError(err, "deleting volume "+r.GetVolumeId())
	}
	defer unlock()
	if e.node != "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to node %s", e.id, e.node)
	}
	if err := s.store.remove(e); err != nil {
		return nil, rpcError(err, "deleting volume "+e.id)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (s *controllerServer) ControllerExpandVolume(
	ctx context.Context, r *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the capacity range is missing")
	}
	e, unlock, err := s.lockVolume(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	size, ok := chooseSize(r.GetCapacityRange(), e.size)
	if !ok {
		return nil, outOfRange(e.id, size)
	}
	if size > e.size {
		if !e.filesystem.canGrow() {
			return nil, errCannotGrow
		}
		if err := os.Truncate(s.store.data(e), size); err != nil {
			return nil, rpcError(err, "expanding volume "+e.id)
		}
		afterStep()
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: true}, nil
}

func (s *controllerServer) ValidateVolumeCapabilities(
	_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if r.GetVolumeId() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the volume ID or the volume capabilities are missing")
	}
	if _, err := s.store.get(volumes, r.GetVolumeId()); err != nil {
		return nil, noVolume(err, r.GetVolumeId())
	}
	if reason := checkCapabilities(r.GetVolumeCapabilities()); reason != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: reason}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
		},
	}, nil
}

func (s *controllerServer) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	free, err := freeBytes(s.store.dir)
	if err != nil {
		return nil, rpcError(err, "reading the free space")
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free}, nil
}

// lockVolume locks a volume. Errors have codes.
func (s *controllerServer) lockVolume(ctx context.Context, id string) (e *entry, unlock func(), err error) {
	e, unlock, err = s.store.lock(ctx, volumes, id)
	return e, unlock, noVolume(err, id)
}

func outOfRange(id string, size int64) error {
	return status.Errorf(codes.OutOfRange, "volume %s would have %d bytes, which is not in the requested range", id, size)
}

func noVolume(err error, id string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(codes.NotFound, "volume %s does not exist", id)
	}
	return rpcError(err, "opening volume "+id)
}
