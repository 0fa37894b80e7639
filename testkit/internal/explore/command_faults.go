package explore

import (
	"slices"
	"strings"
)

// Faults are the names of all kinds of faults. The part before a dash stands for all that begin with it.
func Faults() []string {
	return []string{
		"crash-before", "crash-after", "crash-deleted", "error-500", "error-503", "error-429", "lost-answer", "conflict", "lag",
		"missed", "down", "watch-closed", "watch-broken", "watch-expired", "drift-deleted", "drift-edited", "drift-unseen",
		"deleted", "namespace-deleted", "failover",
	}
}

// IsFault reports whether the name is that of a kind of faults, or stands for some.
func IsFault(name string) bool {
	return slices.ContainsFunc(Faults(), func(f string) bool { return includesFault(name, f) })
}

func includesFault(name, fault string) bool {
	return name == fault || strings.HasPrefix(fault, name+"-")
}
