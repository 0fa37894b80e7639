package freeport_test

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/freeport"
)

// The kernel does not assign the ports, and reserved ones differ.
func TestReserve(t *testing.T) {
	t.Parallel()
	assigned := 32768 // the lowest by default
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if assigned, err = strconv.Atoi(strings.Fields(string(text))[0]); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[int]bool{}
	for range 100 {
		l, port, err := freeport.Reserve()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if port < 1024 || port >= assigned {
			t.Errorf("port %d is not between 1024 and %d", port, assigned)
		}
		if seen[port] {
			t.Errorf("port %d is reserved twice", port)
		}
		seen[port] = true
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(freeport.Host, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
