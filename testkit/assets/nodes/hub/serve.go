//go:build linux

package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// dialTimeout bounds a connection to a pod or a kubelet.
const dialTimeout = 10 * time.Second

// serve serves the control socket:
//
//   - CONNECT connects to an address in the network of the nodes
//   - /v2/ is the registry of the nodes
//   - PUT /programs/FILE?image=NAME makes an image with a static program
//   - POST /nodes/NAME/{start,stop,isolate,connect} acts on a node, as do partition?node=NAME, lose?percent=N and
//     delay?by=DURATION
//   - POST /nodes/NAME/{fill-disk,restore-disk} acts on the disk of a node, as does slow-disk?operations=N
//   - POST /volumes/ID/{fill,free} acts on a volume
//   - POST /nodes/NAME/containers/ID/{kill,pause,continue,exhaust-memory} acts on a container
func (h *hub) serve() error {
	file := filepath.Join(h.Dir, spec.ControlSocket)
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("serving the network of the nodes: %w", err)
	}
	listener, err := net.Listen("unix", file)
	if err != nil {
		return fmt.Errorf("serving the network of the nodes: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /nodes/{name}/{action}", h.handleAction)
	mux.Handle("/v2/", h.images)
	mux.HandleFunc("PUT /programs/{file}", h.handleProgram)
	mux.HandleFunc("POST /volumes/{id}/{action}", h.handleVolume)
	mux.HandleFunc("POST /nodes/{name}/containers/{id}/{action}", h.handleContainer)
	server := &http.Server{ReadHeaderTimeout: dialTimeout, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodConnect {
				connect(w, r)
				return
			}
			mux.ServeHTTP(w, r)
		})}
	return server.Serve(listener)
}

// connect relays a connection to an address.
func connect(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), dialTimeout)
	defer cancel()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = server.Close() }()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
		relay(client, server)
	}
}

func (h *hub) handleAction(w http.ResponseWriter, r *http.Request) {
	m := h.machine(w, r)
	if m == nil {
		return
	}
	act(w, r, map[string]func() error{
		"start": m.Start, "stop": m.Stop,
		"isolate":   func() error { return h.bridge.setPort(m.index, false) },
		"connect":   func() error { return h.connectNode(m) },
		"partition": func() error { return h.partition(m, r) },
		"lose":      func() error { return h.losePackets(m, r) },
		"delay":     func() error { return h.delayPackets(m, r) },
		"fill-disk": m.fillDisk, "restore-disk": m.restoreDisk,
		"slow-disk": func() error { return m.slowDisk(r) },
	})
}

func (h *hub) handleContainer(w http.ResponseWriter, r *http.Request) {
	m := h.machine(w, r)
	if m == nil {
		return
	}
	group, err := m.container(r.PathValue("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	act(w, r, map[string]func() error{
		"kill": group.Kill, "pause": func() error { return group.Freeze(true) },
		"continue": func() error { return group.Freeze(false) },
		"exhaust-memory": func() error {
			return group.ExhaustMemory(h.init, filepath.Join(m.dir(), "memory-of-"+r.PathValue("id")))
		},
	})
}

// machine returns the node of a request, or responds that there is none.
func (h *hub) machine(w http.ResponseWriter, r *http.Request) *machine {
	m := h.find(r.PathValue("name"))
	if m == nil {
		http.Error(w, "there is no node "+r.PathValue("name"), http.StatusNotFound)
	}
	return m
}

// find returns the node of a name, or nil.
func (h *hub) find(name string) *machine {
	for _, m := range h.nodes {
		if m.name() == name {
			return m
		}
	}
	return nil
}

// act does the action of a request.
func act(w http.ResponseWriter, r *http.Request, actions map[string]func() error) {
	action, ok := actions[r.PathValue("action")]
	if !ok {
		http.Error(w, "there is no action "+r.PathValue("action"), http.StatusNotFound)
		return
	}
	if err := action(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
