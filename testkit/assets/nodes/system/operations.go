//go:build linux

package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LimitOperations limits the reads and writes of block devices, which are named MAJOR:MINOR, for this group and each one
// below it, in operations per second. 0 means no limit. With version 1 of control groups, each group has the limit; with
// version 2, it is that of all of them together. Groups that are made later have no limit with version 1. A group that does
// not exist is no error.
func (c Cgroups) LimitOperations(devices []string, perSecond int) error {
	errNoLimits := errors.New("this machine has no control groups that limit the operations of devices")
	limit, root := strconv.Itoa(perSecond), filepath.Join(cgroupRoot, "blkio", c.prefix)
	files := map[string]string{"blkio.throttle.read_iops_device": limit, "blkio.throttle.write_iops_device": limit}
	if c.v2 {
		root = filepath.Join(cgroupRoot, c.prefix)
		if perSecond == 0 {
			limit = "max"
		}
		if enabled, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil &&
			!slices.Contains(strings.Fields(string(enabled)), "io") {
			return errNoLimits
		}
		files = map[string]string{"io.max": "riops=" + limit + " wiops=" + limit}
	} else if !slices.Contains(c.v1, "blkio") {
		return errNoLimits
	}
	var errs []error
	_ = filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil //nolint:nilerr // groups may end meanwhile
		}
		for file, limit := range files {
			errs = append(errs, setLimits(filepath.Join(dir, file), devices, limit))
		}
		return nil
	})
	return errors.Join(errs...)
}

// setLimits writes the limit of each device that has another one: a limit that is written again would let all waiting
// operations wait anew.
func setLimits(file string, devices []string, limit string) error {
	current, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil // the group has ended
	}
	if err != nil {
		return fmt.Errorf("reading the limits of devices: %w", err)
	}
	for _, device := range devices {
		isSet := func(line string) bool {
			return strings.HasPrefix(line, device+" ") && strings.HasSuffix(line, " "+limit)
		}
		if slices.ContainsFunc(strings.Split(string(current), "\n"), isSet) {
			continue
		}
		err := os.WriteFile(file, []byte(device+" "+limit), 0o600)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("limiting the operations of device %s: %w", device, err)
		}
	}
	return nil
}
