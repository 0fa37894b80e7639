package environment

import "github.com/homeostat-dev/homeostat/testkit/internal/process"

// Owner is the process that keeps the environment.
func (l *Lease) Owner() process.ID { return l.owner }
