package explore

import (
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
)

// Faults returns the names of all faults. The part before a hyphen is a group.
func Faults() []string { return fault.Names() }

// IsFault reports whether name is a fault or a group of faults.
func IsFault(name string) bool { return fault.Is(name) }
