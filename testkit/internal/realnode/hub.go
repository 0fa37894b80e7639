// Package realnode is a client of the hub of real nodes.
package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// A Hub serves requests at a unix socket: see package hub. It is safe for concurrent use.
type Hub struct {
	Socket string
}

// ActOnNode does an action: start, stop, isolate, connect, partition?node=NAME, lose?percent=N, fill-disk,
// slow-disk?operations=N or restore-disk.
func (h Hub) ActOnNode(ctx context.Context, node, action string) error {
	return h.do(ctx, http.MethodPost, "/nodes/"+url.PathEscape(node)+"/"+action, nil)
}

// ActOnContainer does an action: kill, pause, continue or exhaust-memory.
func (h Hub) ActOnContainer(ctx context.Context, node, id, action string) error {
	return h.do(ctx, http.MethodPost, "/nodes/"+url.PathEscape(node)+"/containers/"+url.PathEscape(id)+"/"+action, nil)
}

// ActOnVolume does an action: fill or free. The ID is the handle of the PersistentVolume.
func (h Hub) ActOnVolume(ctx context.Context, id, action string) error {
	return h.do(ctx, http.MethodPost, "/volumes/"+url.PathEscape(id)+"/"+action, nil)
}

// LoadProgram gives the nodes an image with a static program, which runs as a user without rights. Nodes find it under its
// name, in place of any registry that the name has.
func (h Hub) LoadProgram(ctx context.Context, image, program string) error {
	file, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("making image %s: %w", image, err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("making image %s: %w", image, err)
	}
	path := "/programs/" + url.PathEscape(filepath.Base(program)) + "?image=" + url.QueryEscape(image)
	return h.do(ctx, http.MethodPut, path, io.NewSectionReader(file, 0, info.Size()))
}

func (h Hub) do(ctx context.Context, method, path string, body *io.SectionReader) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", h.Socket)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, method, "http://hub"+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking the hub of the nodes: %w", err)
	}
	if body != nil {
		request.Body = io.NopCloser(body)
		request.ContentLength = body.Size()
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking the hub of the nodes: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	return err
}
