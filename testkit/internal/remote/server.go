// Package remote serves tests in other languages: a client opens tests, acts on a control plane, and runs its operator as a
// program, with the rules, faults and timelines of package testkit.
//
// Client and server exchange JSON-RPC 2.0 messages, one for each line, over two streams. docs/protocol.md describes them.
// The server calls the client back for checks that are written in the client's language.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/handler"

	"github.com/homeostat-dev/homeostat/testkit"
)

// Version is the version of the protocol. A client names the version that it speaks when it connects.
const Version = 1

// The codes of errors, beside those of JSON-RPC.
const (
	// failed is the code of a failure of the test: an expectation that does not hold, or an object that the API server
	// rejects.
	failed jrpc2.Code = 1
	// unavailable is the code of a control plane that cannot be used.
	unavailable jrpc2.Code = 2
)

// A Server serves one client.
type Server struct {
	mu    sync.Mutex
	tests map[string]*test
	count int
}

// parallel is the number of requests that the server handles at a time. A client without threads sends one.
const parallel = 64

// Serve serves the client until it closes its stream or the context ends. The environment of testkit has been started. It
// closes tests that the client left open.
func Serve(ctx context.Context, in io.Reader, out io.WriteCloser) error {
	s := &Server{tests: map[string]*test{}}
	server := jrpc2.NewServer(s.methods(), &jrpc2.ServerOptions{
		AllowPush: true, Concurrency: parallel, NewContext: func() context.Context { return ctx },
	})
	server.Start(channel.Line(in, out))
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	err := server.Wait()
	s.mu.Lock()
	left := s.tests
	s.tests = map[string]*test{}
	s.mu.Unlock()
	for _, t := range left {
		t.close()
	}
	if err != nil && !errors.Is(err, jrpc2.ErrConnClosed) && ctx.Err() == nil {
		return fmt.Errorf("reading from the client: %w", err)
	}
	return nil
}

func (s *Server) methods() handler.Map {
	return handler.Map{
		"connect":    handler.New(s.connect),
		"test.open":  handler.New(s.open),
		"test.close": handler.New(s.close),
		"apply":      handler.New(s.apply),
		"read":       handler.New(s.read),
		"patch":      handler.New(s.patch),
		"delete":     handler.New(s.delete),
		"get":        handler.New(s.get),
		"list":       handler.New(s.list),
		"refused":    handler.New(s.refused),
		"eventually": handler.New(s.eventually), "consistently": handler.New(s.consistently),
		"states":             handler.New(s.states),
		"pods.fail":          handler.New(s.failPods),
		"pods.heal":          handler.New(s.healPods),
		"operator.start":     handler.New(s.start),
		"operator.stop":      handler.New(s.stop),
		"operator.kill":      handler.New(s.kill),
		"operator.wait":      handler.New(s.wait),
		"operator.idle":      handler.New(s.idle),
		"operator.requests":  handler.New(s.requests),
		"operator.fault":     handler.New(s.addFault),
		"operator.fault.end": handler.New(s.endFault),
		"operator.watches":   handler.New(s.watches),
		"operator.outage":    handler.New(s.outage),
	}
}

// A connection is the answer to connect.
type connection struct {
	Protocol int `json:"protocol"`
}

func (s *Server) connect(ctx context.Context, p struct {
	Protocol int `json:"protocol"`
},
) (connection, error) {
	if p.Protocol != Version {
		return connection{}, jrpc2.Errorf(jrpc2.InvalidParams, "the client speaks version %d of the protocol, and this testkit "+
			"version %d: use a client and a testkit of the same release", p.Protocol, Version)
	}
	if _, err := testkit.Config(ctx); err != nil {
		return connection{}, jrpc2.Errorf(unavailable, "starting the control plane: %v", err)
	}
	return connection{Protocol: Version}, nil
}

// find returns an open test.
func (s *Server) find(id string) (*test, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.tests[id]; ok {
		return t, nil
	}
	return nil, jrpc2.Errorf(jrpc2.InvalidParams, "there is no open test %q", id)
}
