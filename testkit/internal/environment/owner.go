package environment

import "github.com/homeostat-dev/homeostat/testkit/internal/process"

// Owner returns the server process of the environment.
func (l *Lease) Owner() process.ID { return l.owner }
