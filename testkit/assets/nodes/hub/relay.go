//go:build linux

package hub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// frameSize is enough for a frame that a network interface has not divided into segments yet, and its header.
	frameSize = 1 << 17
	// maxDelayed is the number of frames of one direction that wait at the same time. More are dropped.
	maxDelayed = 4096
)

// A packetRelay forwards the frames between two interfaces, each after a delay, in order. It does what the kernel's module
// netem does, which not each kernel has.
type packetRelay struct {
	delay    atomic.Int64 // a time.Duration
	ends     [2]*os.File
	waiting  [2]chan delayedFrame // from each end
	done     sync.WaitGroup
	stopping chan struct{}
}

// startPacketRelay starts a relay between two interfaces that nothing else uses.
func startPacketRelay(delay time.Duration, links [2]netlink.Link) (*packetRelay, error) {
	r := &packetRelay{stopping: make(chan struct{})}
	r.delay.Store(int64(delay))
	for i, link := range links {
		end, err := openFrames(link.Attrs().Index)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("reading the packets of %s: %w", link.Attrs().Name, err), r.stop())
		}
		r.ends[i] = end
	}
	for i, end := range r.ends {
		r.waiting[i] = make(chan delayedFrame, maxDelayed)
		r.done.Go(func() { r.receive(end, r.waiting[i]) })
		r.done.Go(func() { r.send(r.waiting[i], r.ends[1-i]) })
	}
	return r, nil
}

// stop ends the relay. Frames that wait are forwarded at once.
func (r *packetRelay) stop() error {
	close(r.stopping)
	var errs []error
	for _, end := range r.ends {
		if end != nil {
			errs = append(errs, end.SetReadDeadline(time.Now()))
		}
	}
	r.done.Wait()
	for _, end := range r.ends {
		if end != nil {
			errs = append(errs, end.Close())
		}
	}
	return errors.Join(errs...)
}

// A delayedFrame is a frame that is sent at a time.
type delayedFrame struct {
	at   time.Time
	data []byte
}

func (r *packetRelay) receive(from *os.File, waiting chan<- delayedFrame) {
	defer close(waiting)
	buffer := make([]byte, frameSize)
	for {
		n, err := from.Read(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return
		case err != nil: // the interface is down: the next read waits for it
			continue
		}
		at := time.Now().Add(time.Duration(r.delay.Load()))
		select {
		case waiting <- delayedFrame{at: at, data: slices.Clone(buffer[:n])}:
		default:
		}
	}
}

func (r *packetRelay) send(waiting <-chan delayedFrame, to *os.File) {
	for frame := range waiting {
		select {
		case <-time.After(time.Until(frame.at)):
		case <-r.stopping:
		}
		_, _ = to.Write(frame.data) // it is lost if the interface is down, as in a real network
	}
}

// openFrames returns a file from which the frames are read that arrive at an interface, and to which others are written. In
// front of each is the kernel's header about segments and checksums that are still to be computed.
func openFrames(index int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
	)
	if err == nil {
		allProtocols := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("configuring a packet socket: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "packets"), nil
}
