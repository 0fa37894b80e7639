//go:build linux

package volume

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// checkCapabilities returns why a volume cannot have the capabilities, or an empty string.
func checkCapabilities(capabilities []*csi.VolumeCapability) string {
	if len(capabilities) == 0 {
		return "a volume capability is missing"
	}
	for _, c := range capabilities {
		if reason := checkCapability(c); reason != "" {
			return reason
		}
	}
	return ""
}

func checkCapability(c *csi.VolumeCapability) string {
	if c == nil {
		return "a volume capability is missing"
	}
	mount := c.GetMount()
	if mount == nil {
		return "a volume is mounted; volume mode Block is not supported"
	}
	if fs := mount.GetFsType(); fs != "" && filesystems[fs] == nil {
		return fmt.Sprintf("a volume has the filesystem ext4 or xfs; %q is not supported", fs)
	}
	switch mode := c.GetAccessMode().GetMode(); mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return ""
	case csi.VolumeCapability_AccessMode_UNKNOWN,
		csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return fmt.Sprintf("a volume is attached to one node at a time; access mode %s is not supported", mode)
	}
	return "the access mode is unknown"
}

// filesystemOf returns the type of filesystem that the capabilities name, which may be empty.
func filesystemOf(capabilities []*csi.VolumeCapability) string {
	for _, c := range capabilities {
		if fs := c.GetMount().GetFsType(); fs != "" {
			return fs
		}
	}
	return ""
}

// Sizes of volumes in bytes.
const (
	sizeUnit    = 1 << 20
	minimumSize = 16 << 20
	defaultSize = 1 << 30
)

// chooseSize returns the size of a volume with at least atLeast bytes for a request, and whether there is one.
func chooseSize(r *csi.CapacityRange, atLeast int64) (size int64, ok bool) {
	size = r.GetRequiredBytes()
	if size == 0 {
		size = defaultSize
		if limit := r.GetLimitBytes(); limit > 0 {
			size = min(size, limit/sizeUnit*sizeUnit)
		}
	}
	size = max(size, atLeast, minimumSize)
	size = (size + sizeUnit - 1) / sizeUnit * sizeUnit
	return size, size > 0 && isWithin(r, size)
}

func isWithin(r *csi.CapacityRange, size int64) bool {
	return size >= r.GetRequiredBytes() && (r.GetLimitBytes() == 0 || size <= r.GetLimitBytes())
}
