//go:build linux

package hub

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	headerSize = 10     // of the kernel, in front of each frame
	macSize    = 12     // the addresses of a frame
	frameType  = 0x88b5 // of the test: the kernel sends frames of its own as well
	minFrame   = 60
)

// relayTest is a relay between two pairs of interfaces, and their outer ends.
type relayTest struct {
	*testing.T

	relay          *packetRelay
	client, server *os.File
	inner          [2]netlink.Link
	netlink        *netlink.Handle
	deadline       time.Time
}

func startRelayTest(t *testing.T, delay time.Duration) *relayTest {
	t.Helper()
	r := &relayTest{T: t, deadline: time.Now().Add(10 * time.Second)}
	inNetworkNamespace(t, func() (err error) {
		r.netlink, err = netlink.NewHandle() // it stays in the namespace
		if err != nil {
			return err
		}
		if r.client, r.inner[0], err = r.addPair("client"); err != nil {
			return err
		}
		if r.server, r.inner[1], err = r.addPair("server"); err != nil {
			return err
		}
		r.relay, err = startPacketRelay(delay, r.inner)
		return err
	})
	t.Cleanup(func() {
		_ = r.client.Close()
		_ = r.server.Close()
		r.netlink.Close()
	})
	return r
}

// addPair returns the frames of one end of a pair of interfaces, and the other end.
func (r *relayTest) addPair(name string) (*os.File, netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "-peer"}
	if err := r.netlink.LinkAdd(pair); err != nil {
		return nil, nil, err
	}
	peer, err := r.netlink.LinkByName(pair.PeerName)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(r.netlink.LinkSetUp(pair), r.netlink.LinkSetUp(peer)); err != nil {
		return nil, nil, err
	}
	frames, err := openFrames(pair.Attrs().Index)
	return frames, peer, err
}

// frame returns a frame with a number, of a length.
func frame(number, length int) []byte {
	data := make([]byte, headerSize+macSize, headerSize+length)
	data = binary.BigEndian.AppendUint16(data, frameType)
	return append(data, bytes.Repeat([]byte{byte(number)}, headerSize+length-len(data))...)
}

func (r *relayTest) send(from *os.File, data []byte) {
	r.Helper()
	if _, err := from.Write(data); err != nil {
		r.Fatalf("sending a frame: %v", err)
	}
}

// receive returns the next frame of the test, or nil if none arrives until a time.
func (r *relayTest) receive(at *os.File, until time.Time) []byte {
	r.Helper()
	if err := at.SetReadDeadline(until); err != nil {
		r.Fatal(err)
	}
	buffer := make([]byte, frameSize)
	for {
		n, err := at.Read(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			r.Fatalf("receiving a frame: %v", err)
		case binary.BigEndian.Uint16(buffer[headerSize+macSize:]) == frameType:
			return buffer[:n]
		}
	}
}

// Frames arrive in both directions after the delay, in order, unchanged, and once.
func TestRelay(t *testing.T) {
	t.Parallel()
	const delay = 100 * time.Millisecond
	r := startRelayTest(t, delay)
	for _, way := range [][2]*os.File{{r.client, r.server}, {r.server, r.client}} {
		start := time.Now()
		for i := range 100 {
			r.send(way[0], frame(i, minFrame+10*i))
		}
		for i := range 100 {
			if got := r.receive(way[1], r.deadline); !bytes.Equal(got, frame(i, minFrame+10*i)) {
				t.Fatalf("received %x, want frame %d", got, i)
			}
		}
		if took := time.Since(start); took < delay {
			t.Errorf("the frames arrived after %v, want %v or more", took, delay)
		}
	}
	if err := r.relay.stop(); err != nil {
		t.Fatal(err)
	}
}

// A relay that stops forwards what waits.
func TestStoppedRelay(t *testing.T) {
	t.Parallel()
	r := startRelayTest(t, time.Hour)
	r.send(r.client, frame(0, minFrame))
	r.send(r.client, frame(1, minFrame))
	for len(r.relay.waiting[0]) == 0 && time.Now().Before(r.deadline) { // the first frame is not in it: it is the next one
		runtime.Gosched()
	}
	if err := r.relay.stop(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if got := r.receive(r.server, r.deadline); !bytes.Equal(got, frame(i, minFrame)) {
			t.Errorf("received %x, want frame %d", got, i)
		}
	}
}

// Frames are lost while the interface of a node is down, and forwarded again afterwards.
func TestRelayOfAnIsolatedNode(t *testing.T) {
	t.Parallel()
	r := startRelayTest(t, time.Millisecond)
	if err := r.netlink.LinkSetDown(r.inner[0]); err != nil {
		t.Fatal(err)
	}
	_, _ = r.client.Write(frame(0, minFrame))
	r.send(r.server, frame(1, minFrame))
	if err := r.netlink.LinkSetUp(r.inner[0]); err != nil {
		t.Fatal(err)
	}
	for _, way := range [][2]*os.File{{r.client, r.server}, {r.server, r.client}} {
		for got := []byte(nil); !bytes.Equal(got, frame(2, minFrame)); { // interfaces carry frames a moment later
			if time.Now().After(r.deadline) {
				t.Fatal("no frame is forwarded after the isolation")
			}
			_, _ = way[0].Write(frame(2, minFrame))
			got = r.receive(way[1], time.Now().Add(20*time.Millisecond))
		}
	}
	if err := r.relay.stop(); err != nil {
		t.Fatal(err)
	}
}
