//go:build linux

package hub

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/node"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// The packets between a node and the hub are delayed in both directions, those that find addresses too, and all data arrive.
func TestDelayedConnection(t *testing.T) {
	t.Parallel()
	const delay, index = 100 * time.Millisecond, 3
	n := startNode(t)
	inNetworkNamespace(t, func() error {
		bridge, err := newNetwork()
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", spec.HubAddress+":0")
		if err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
		go echo(listener)
		if err := errors.Join(bridge.connect(index, n.thread), n.do(func() error { return configure(index) })); err != nil {
			return err
		}
		r, err := bridge.delay(index, delay)
		if err != nil {
			return err
		}
		start := time.Now()
		err = n.do(func() error { return exchange(t.Context(), listener.Addr(), 1) })
		if took := time.Since(start); took < 6*delay { // two packets for the address of the hub, the connection, and the data
			t.Errorf("an exchange took %v, want at least %v", took, 6*delay)
		}
		r.delay.Store(int64(time.Millisecond))
		const severalSegments = 8 << 20 // in a frame
		err = errors.Join(err, n.do(func() error { return exchange(t.Context(), listener.Addr(), severalSegments) }))
		err = errors.Join(err, bridge.undelay(index, r))
		return errors.Join(err, n.do(func() error { return exchange(t.Context(), listener.Addr(), 1) }), bridge.disconnect(index))
	})
}

// echo returns what each connection sends.
func echo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // it is closed
		}
		go func() {
			defer func() { _ = conn.Close() }()
			_, _ = io.Copy(conn, conn)
		}()
	}
}

// exchange sends random data to an address, and receives them back.
func exchange(ctx context.Context, address net.Addr, size int) error {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", address.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	data, got := make([]byte, size), make([]byte, size)
	_, _ = rand.Read(data) // it never fails
	go func() { _, _ = conn.Write(data) }()
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return errors.New("other data were received than sent")
	}
	return nil
}

// A nodeThread is a thread in a network namespace of its own.
type nodeThread struct {
	thread  int
	calls   chan func() error
	results chan error
}

func startNode(t *testing.T) nodeThread {
	t.Helper()
	n := nodeThread{calls: make(chan func() error), results: make(chan error)}
	t.Cleanup(func() { close(n.calls) })
	go func() {
		runtime.LockOSThread() // without UnlockOSThread: the namespace ends with this goroutine
		n.thread = syscall.Gettid()
		n.results <- syscall.Unshare(syscall.CLONE_NEWNET)
		for call := range n.calls {
			n.results <- call()
		}
	}()
	switch err := <-n.results; {
	case errors.Is(err, syscall.EPERM):
		t.Skip("a network namespace needs root")
	case err != nil:
		t.Fatal(err)
	}
	return n
}

// do calls a function in the namespace.
func (n nodeThread) do(f func() error) error {
	n.calls <- f
	return <-n.results
}

// configure gives the interface of a node its address.
func configure(index int) error {
	link, err := netlink.LinkByName(node.Interface)
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(spec.NodeAddress(index).String() + "/16")
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(link, address), netlink.LinkSetUp(link))
}
