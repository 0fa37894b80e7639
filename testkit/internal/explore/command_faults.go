package explore

// Faults are the names of all kinds of faults. The part before a dash stands for all that begin with it.
func Faults() []string {
	return []string{
		"crash-before", "crash-after", "crash-deleted", "error-500", "error-503", "error-429", "lost-answer", "conflict", "lag",
		"missed", "down", "watch-closed", "watch-broken", "watch-expired", "drift-deleted", "drift-edited", "drift-unseen",
		"deleted", "failover",
	}
}
