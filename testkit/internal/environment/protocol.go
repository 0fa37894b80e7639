package environment

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

var (
	// errConflict reports an environment with another version of an object.
	errConflict = errors.New("other objects are needed")
	// errEnded reports that the environment has closed the connection.
	errEnded = errors.New("the environment has ended")
)

// leaseRequest is the only message of a client.
type leaseRequest struct {
	Nodes   int               `json:"nodes,omitempty"`
	Objects []json.RawMessage `json:"objects,omitempty"`
	// Until is a process whose end ends the lease, if it is later than the end of the connection.
	Until *process.ID `json:"until,omitempty"`
}

// reply is a message of the environment: any number with progress, then ready, conflict or failure. After ready one
// failure or shared message may follow.
type reply struct {
	Progress string `json:"progress,omitempty"`
	Ready    *ready `json:"ready,omitempty"`
	Conflict string `json:"conflict,omitempty"`
	Failure  string `json:"failure,omitempty"`
	// HasOtherLeases confirms the end of a lease while other leases exist.
	HasOtherLeases bool `json:"shared,omitempty"`
}

type ready struct {
	Host  string     `json:"host"`
	Token string     `json:"token"`
	CA    []byte     `json:"ca"`
	Dir   string     `json:"dir"`
	Owner process.ID `json:"owner"`
}

// A stream carries one JSON message per line.
type stream struct {
	decoder *json.Decoder
	encoder *json.Encoder
}

func newStream(conn net.Conn) *stream {
	return &stream{decoder: json.NewDecoder(bufio.NewReader(conn)), encoder: json.NewEncoder(conn)}
}

func (s *stream) send(message any) error {
	if err := s.encoder.Encode(message); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	return nil
}

func (s *stream) receive(message any) error {
	if err := s.decoder.Decode(message); err != nil {
		return fmt.Errorf("receiving: %w", err)
	}
	return nil
}

// isReset reports whether the other side closed the connection before reading everything.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
