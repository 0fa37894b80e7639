//go:build linux

package hub

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSlowDiskNeedsNumber(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "?operations=0", "?operations=-1", "?operations=fast"} {
		n := &machine{}
		err := n.slowDisk(httptest.NewRequestWithContext(t.Context(), "POST", "/nodes/a/slow-disk"+query, nil))
		if err == nil || !strings.Contains(err.Error(), "is no number of operations") || n.disks.operations != 0 {
			t.Errorf("%q: %v, and %d operations", query, err, n.disks.operations)
		}
	}
}

func TestFillDiskOfNodeThatIsOff(t *testing.T) {
	t.Parallel()
	n := &machine{}
	if err := n.fillDisk(); err == nil || err.Error() != "it is off" || n.disks.full {
		t.Errorf("got %v, want that the node is off", err)
	}
}
