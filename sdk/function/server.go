package function

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// Server is a [Transport] to a function in a server: each request is the body of a POST, and the answer is the body of the
// response with status 200.
type Server struct {
	// URL is http://HOST:PORT/PATH, https://HOST:PORT/PATH, or unix:///PATH of a socket. Required.
	URL string
	// Timeout is the time for an answer. Zero means DefaultTimeout.
	Timeout time.Duration
	// MaxAnswer is the largest answer in bytes. Zero means DefaultMaxAnswer.
	MaxAnswer int
	// Client makes the requests to an http or https URL. Nil means one of its own.
	Client *http.Client
}

// Validate implements [Transport].
func (s *Server) Validate() error {
	_, _, err := s.client()
	return err
}

// Connect implements [Transport].
func (s *Server) Connect(logr.Logger) Connection {
	c := &server{Server: *s}
	c.http, c.target, c.err = s.client()
	return c
}

// client returns the client and the URL of the requests.
func (s *Server) client() (*http.Client, string, error) {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("the URL of the function: %w", err)
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", u.Path)
		}}
		return &http.Client{Transport: transport}, "http://function/", nil
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		if s.Client != nil {
			return s.Client, s.URL, nil
		}
		return &http.Client{Transport: &http.Transport{}}, s.URL, nil
	default:
		return nil, "", fmt.Errorf("the URL of the function is %q: it must be http://HOST:PORT/PATH, "+
			"https://HOST:PORT/PATH or unix:///PATH", s.URL)
	}
}

// server is the connection of one engine.
type server struct {
	Server
	http   *http.Client
	target string
	err    error
}

// Close implements [Connection].
func (s *server) Close() {
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
}

// Call sends a request.
func (s *server) Call(ctx context.Context, request []byte) ([]byte, error) {
	if s.err != nil {
		return nil, &CallError{ReasonUnavailable, s.err.Error()}
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, DefaultTimeout))
	defer cancel()
	answer, err := s.post(limited, request)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, &CallError{ReasonTimeout, "the function did not answer in time: see --function-timeout"}
	}
	if failure, ok := errors.AsType[*CallError](err); ok {
		return nil, failure
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	return nil, &CallError{ReasonUnavailable, fmt.Sprintf("the function cannot be called: %s", err)}
}

func (s *server) post(ctx context.Context, request []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // everything that is needed was read.
	limit := cmp.Or(s.MaxAnswer, DefaultMaxAnswer)
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > limit:
		return nil, &CallError{ReasonInvalidAnswer, fmt.Sprintf("the answer of the function is larger than %d bytes", limit)}
	case response.StatusCode != http.StatusOK:
		text := strings.TrimSpace(string(body[:min(len(body), 200)]))
		return nil, &CallError{ReasonFailed, fmt.Sprintf("the function answered with status %s: %s", response.Status, text)}
	}
	return body, nil
}
