//go:build linux

package volume

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func (s *controllerServer) CreateSnapshot(
	ctx context.Context, r *csi.CreateSnapshotRequest,
) (*csi.CreateSnapshotResponse, error) {
	if r.GetName() == "" || r.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the name of the snapshot or the ID of its volume is missing")
	}
	for name := range r.GetParameters() {
		return nil, status.Errorf(codes.InvalidArgument, "snapshot class parameter %q is not supported", name)
	}
	id, source := idOf(r.GetName()), volumes+"/"+r.GetSourceVolumeId()
	if _, err := s.store.get(snapshots, id); errors.Is(err, fs.ErrNotExist) {
		volume, err := s.store.get(volumes, r.GetSourceVolumeId())
		if err != nil {
			return nil, noVolume(err, r.GetSourceVolumeId())
		}
		meta := record{Name: r.GetName(), Source: source, Created: time.Now(), Filesystem: volume.Filesystem}
		err = s.store.create(snapshots, id, meta, func(data string) error { return s.copyEntry(ctx, volume, data) })
		if err != nil && !errors.Is(err, errExists) {
			return nil, rpcError(err, "creating snapshot "+r.GetName())
		}
	}
	e, err := s.store.get(snapshots, id)
	if err != nil {
		return nil, rpcError(err, "creating snapshot "+r.GetName())
	}
	if e.Source != source {
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s exists with another source: %s", id, e.Source)
	}
	return &csi.CreateSnapshotResponse{Snapshot: e.snapshot()}, nil
}

func (s *controllerServer) DeleteSnapshot(
	ctx context.Context, r *csi.DeleteSnapshotRequest,
) (*csi.DeleteSnapshotResponse, error) {
	if r.GetSnapshotId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the snapshot ID is missing")
	}
	e, unlock, err := s.store.lock(ctx, snapshots, r.GetSnapshotId())
	if errors.Is(err, fs.ErrNotExist) {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	if err != nil {
		return nil, rpcError(err, "deleting snapshot "+r.GetSnapshotId())
	}
	defer unlock()
	if err := s.store.remove(e); err != nil {
		return nil, rpcError(err, "deleting snapshot "+e.id)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// copyEntry copies the data of a volume or snapshot. A mounted filesystem is frozen during the copy: what was written before
// the call is in the copy, and no write is in it by half.
func (s *controllerServer) copyEntry(ctx context.Context, source *entry, to string) (err error) {
	source, unlock, err := s.store.lock(ctx, source.kind, source.id)
	if err != nil {
		return err
	}
	defer unlock()
	data := s.store.data(source)
	loops, err := findLoops(data)
	if err != nil {
		return err
	}
	for _, l := range loops {
		root, openErr := source.filesystem.open(l.path)
		l.close()
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		defer func() {
			err = errors.Join(err, thaw(root), root.Close())
			afterStep()
		}()
		err = errors.Join(err, freeze(root))
		afterStep()
	}
	if err != nil {
		return err
	}
	return copyFile(ctx, data, to)
}

// thawAll ends the freeze of a call that was interrupted.
func (s *store) thawAll(ctx context.Context) error {
	list, err := s.list(volumes)
	for _, e := range list {
		err = errors.Join(err, s.thaw(ctx, e.id))
	}
	return err
}

func (s *store) thaw(ctx context.Context, id string) error {
	e, unlock, err := s.lock(ctx, volumes, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	loops, err := findLoops(s.data(e))
	for _, l := range loops {
		err = errors.Join(err, e.filesystem.thawLoop(l))
		l.close()
	}
	return err
}

func (f *filesystem) thawLoop(l *loop) error {
	root, err := f.open(l.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EIO) {
		return nil // it is no longer mounted, or was shut down
	}
	if err != nil {
		return err
	}
	return errors.Join(thaw(root), root.Close())
}

func (e *entry) snapshot() *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: e.id, SourceVolumeId: e.sourceID(), SizeBytes: e.size,
		CreationTime: timestamppb.New(e.Created), ReadyToUse: true,
	}
}
