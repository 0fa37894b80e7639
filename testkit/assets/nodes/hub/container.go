//go:build linux

package hub

import (
	"fmt"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/system"
)

// container returns the control group of a running container, by its ID.
func (n *machine) container(id string) (system.Cgroups, error) {
	groups, err := system.FindCgroups(n.cgroup())
	if err != nil {
		return system.Cgroups{}, err
	}
	group, ok := groups.Below(id)
	if !ok {
		return system.Cgroups{}, fmt.Errorf("node %s runs no container %s", n.name(), id)
	}
	return group, nil
}
