package explore

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Webhooks are the webhooks of one process of a program.
type Webhooks struct {
	// Names names the configurations, for errors.
	Names string
	// Address is the address at which the process has to serve them.
	Address string
	// Env adds variables for the process.
	Env []string
	// Stop is called when the process has ended.
	Stop func()
}

// webhookInterval is the polling interval for the webhook server of a process.
const webhookInterval = 10 * time.Millisecond

// awaitWebhooks waits until the process serves its webhooks. If no process of the program ever has, the error is a
// [StartError].
func (c *Command) awaitWebhooks(ctx context.Context, p *program) error {
	if c.Webhooks == nil {
		return nil
	}
	limit := c.Timeout
	if limit == 0 {
		limit = defaultTimeout
	}
	timeout := time.After(limit)
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.webhooks.Address)
		if err == nil {
			c.hasServed.Store(true)
			return conn.Close()
		}
		select {
		case <-time.After(webhookInterval):
		case <-p.done: // superviseProcess handles the exit
			return nil
		case <-ctx.Done():
			return nil
		case <-timeout:
			if c.hasServed.Load() {
				return nil // the oracles report it
			}
			return &StartError{Err: fmt.Errorf("no process serves the webhooks of %s: nothing listens at %s, which is the value "+
				"of WEBHOOK_BIND_ADDRESS, within %v: make the operator serve them there, with the certificate in the folder "+
				"WEBHOOK_CERT_DIR, or leave out --webhooks", p.webhooks.Names, p.webhooks.Address, limit)}
		}
	}
}
