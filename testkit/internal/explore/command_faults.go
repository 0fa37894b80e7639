package explore

import (
	"slices"
	"strings"
)

// Faults returns the names of all faults. The part before a hyphen is a group.
func Faults() []string {
	return []string{
		"crash-before", "crash-after", "crash-deleted", "error-500", "error-503", "error-429", "lost-answer", "conflict", "lag",
		"missed", "down", "watch-closed", "watch-broken", "watch-expired", "drift-deleted", "drift-edited", "drift-unseen",
		"deleted", "namespace-deleted", "failover",
	}
}

// IsFault reports whether name is a fault or a group of faults.
func IsFault(name string) bool {
	return slices.ContainsFunc(Faults(), func(f string) bool { return includesFault(name, f) })
}

func includesFault(name, fault string) bool {
	return name == fault || strings.HasPrefix(fault, name+"-")
}
