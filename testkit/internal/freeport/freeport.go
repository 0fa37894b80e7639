// Package freeport finds ports for servers that other processes start.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Host is the address of the ports.
const Host = "127.0.0.1"

// The ports are below those that the kernel assigns to connections and to listeners on port 0. From among these, any process
// could get a port between the end of its reservation and the start of its server.
const first, last = 20000, 32000

// attempts is more than are needed even if half of the ports are in use.
const attempts = 100

// Reserve returns a free port, and the listener that keeps it from other callers until it is closed. Another process may
// choose the same port afterwards: a caller that can recognize this should try another one.
func Reserve() (net.Listener, int, error) {
	for range attempts {
		port := first + rand.IntN(last-first)
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(Host, strconv.Itoa(port)))
		if err == nil {
			return l, port, nil
		}
	}
	return nil, 0, fmt.Errorf("looking for a free port on %s between %d and %d: none found", Host, first, last)
}

// Get returns a free port, without a reservation.
func Get() (int, error) {
	l, port, err := Reserve()
	if err != nil {
		return 0, err
	}
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	return port, nil
}
