package cluster

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/internal/freeport"
)

// prepared returns a control plane whose etcd runs.
func prepared(t *testing.T) *Cluster {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Programs: Programs(API)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := prepare(Options{Binaries: set.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := c.startEtcd(); err != nil {
		t.Fatal(err)
	}
	return c
}

// occupied returns a port in use.
func occupied(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Another process may take the port between its choice and its use.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	c := prepared(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	taken := occupied(t)
	calls := 0
	err := c.startAPIServer(ctx, func() (int, error) {
		if calls++; calls == 1 {
			return taken, nil
		}
		return freeport.Get()
	})
	if err != nil || calls < 2 { // a free port may be taken, too
		t.Errorf("after %d attempts: %v", calls, err)
	}
	if len(c.processes) != 2 {
		t.Errorf("%d processes run, want etcd and kube-apiserver", len(c.processes))
	}
}

func TestAllPortsTaken(t *testing.T) {
	t.Parallel()
	c := prepared(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	taken := occupied(t)
	calls := 0
	err := c.startAPIServer(ctx, func() (int, error) {
		calls++
		return taken, nil
	})
	if err == nil || !strings.Contains(err.Error(), "address already in use") || calls != bindAttempts {
		t.Errorf("after %d attempts: %v", calls, err)
	}
}
