// Package seed defines the flag that seeds the random choices of every exploration, so that one command replays any of
// them. It makes no choices itself.
package seed

import (
	"flag"
	"time"
)

// Flag is the name of the flag of go test.
const Flag = "testkit.seed"

var given = flag.Int64(Flag, 0, "what packages chaos and gen choose by; 0 means by chance")

// FlagValue returns the flag's value, 0 if it was not set.
func FlagValue() int64 { return *given }

// FlagOr returns the flag's value or, if it was not set, the fallback. If both are 0, it returns a new random number.
func FlagOr(fallback int64) int64 {
	switch {
	case *given != 0:
		return *given
	case fallback != 0:
		return fallback
	default:
		return time.Now().UnixNano()
	}
}
