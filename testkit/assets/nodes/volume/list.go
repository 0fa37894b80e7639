//go:build linux

package volume

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (s *controllerServer) ListVolumes(
	_ context.Context, r *csi.ListVolumesRequest,
) (*csi.ListVolumesResponse, error) {
	list, err := s.store.list(volumes)
	if err != nil {
		return nil, rpcError(err, "listing volumes")
	}
	list, next, err := page(list, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ListVolumesResponse{NextToken: next}
	for _, e := range list {
		volume := &csi.Volume{VolumeId: e.id, CapacityBytes: e.size, ContentSource: e.contentSource()}
		state := &csi.ListVolumesResponse_VolumeStatus{}
		if e.node != "" {
			state.PublishedNodeIds = []string{e.node}
		}
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{Volume: volume, Status: state})
	}
	return response, nil
}

func (s *controllerServer) ListSnapshots(
	_ context.Context, r *csi.ListSnapshotsRequest,
) (*csi.ListSnapshotsResponse, error) {
	list, err := s.listSnapshots(r.GetSnapshotId())
	if err != nil {
		return nil, rpcError(err, "listing snapshots")
	}
	if volume := r.GetSourceVolumeId(); volume != "" {
		list = slices.DeleteFunc(list, func(e *entry) bool { return e.sourceID() != volume })
	}
	list, next, err := page(list, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	response := &csi.ListSnapshotsResponse{NextToken: next}
	for _, e := range list {
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: e.snapshot()})
	}
	return response, nil
}

// listSnapshots returns the snapshot with an ID, or all of them.
func (s *controllerServer) listSnapshots(id string) ([]*entry, error) {
	if id == "" {
		return s.store.list(snapshots)
	}
	e, err := s.store.get(snapshots, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return []*entry{e}, err
}

// tokenPrefix precedes the last ID of a page in the token of the next one.
const tokenPrefix = "after:"

// page returns the entries after the token, at most limit unless it is 0, and the token of the next page.
func page(list []*entry, token string, limit int32) (entries []*entry, next string, err error) {
	if token != "" {
		last, ok := strings.CutPrefix(token, tokenPrefix)
		if !ok {
			return nil, "", status.Errorf(codes.Aborted, "%q is not a token of this driver", token)
		}
		list = slices.DeleteFunc(list, func(e *entry) bool { return e.id <= last })
	}
	if limit > 0 && len(list) > int(limit) {
		list = list[:limit]
		next = tokenPrefix + list[limit-1].id
	}
	return list, next, nil
}

func (e *entry) sourceID() string {
	_, id, _ := strings.Cut(e.Source, "/")
	return id
}

func (e *entry) contentSource() *csi.VolumeContentSource {
	switch kind, id, _ := strings.Cut(e.Source, "/"); kind {
	case snapshots:
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id},
		}}
	case volumes:
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
		}}
	}
	return nil
}
