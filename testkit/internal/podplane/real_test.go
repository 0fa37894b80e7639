package podplane_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/podplane"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
)

// cluster has nodes, and a pod on the second one of them.
type cluster struct{ nodes []string }

func (c cluster) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.(*corev1.Pod).Spec.NodeName = "node-1"
	return nil
}

func (c cluster) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	nodes := list.(*corev1.NodeList)
	for _, name := range c.nodes {
		nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return nil
}

// serveHub serves a hub that refuses the request with a suffix, and returns the requests.
func serveHub(t *testing.T, refuses string) (realnode.Hub, *[]string) {
	t.Helper()
	requests := &[]string{}
	hub := realnode.Hub{Socket: filepath.Join(t.TempDir(), "hub.sock")}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", hub.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*requests = append(*requests, r.URL.RequestURI()) // one after the other
			if refuses != "" && strings.HasSuffix(r.URL.RequestURI(), refuses) {
				http.Error(w, "no rules", http.StatusInternalServerError)
			}
		}),
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return hub, requests
}

// The node of a pod is separated from each other node. A partition that is incomplete ends.
func TestPartition(t *testing.T) {
	t.Parallel()
	const from0, from2, connect = "/nodes/node-1/partition?node=node-0", "/nodes/node-1/partition?node=node-2",
		"/nodes/node-1/connect"
	three := []string{"node-0", "node-1", "node-2"}
	for name, test := range map[string]struct {
		nodes       []string
		shared      bool
		refuses     string
		want        []string
		unsupported bool
	}{
		"three nodes":              {nodes: three, want: []string{from0, from2, connect}},
		"the hub refuses":          {nodes: three, refuses: "node-2", want: []string{from0, from2, connect}},
		"one node":                 {nodes: []string{"node-1"}, unsupported: true},
		"other tests on the nodes": {nodes: three, shared: true, unsupported: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub, requests := serveHub(t, test.refuses)
			plane := podplane.Real{Hub: hub, Client: cluster{test.nodes}, OwnsNodes: !test.shared}
			restore, err := plane.Partition(t.Context(), types.NamespacedName{Name: "p"})
			if errors.Is(err, podplane.ErrUnsupported) != test.unsupported {
				t.Errorf("the error is %v, want that the nodes cannot do that: %t", err, test.unsupported)
			}
			if isError := test.unsupported || test.refuses != ""; (err != nil) != isError {
				t.Errorf("the error is %v, want one: %t", err, isError)
			}
			if err == nil {
				err = restore(t.Context())
				if err != nil {
					t.Errorf("the partition does not end: %v", err)
				}
			}
			if diff := cmp.Diff(test.want, *requests, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// Simulated nodes have no packets.
func TestSimulatedPartition(t *testing.T) {
	t.Parallel()
	_, err := podplane.Simulated{}.Partition(t.Context(), types.NamespacedName{Name: "p"})
	if !errors.Is(err, podplane.ErrUnsupported) {
		t.Errorf("the error is %v, want that the nodes cannot do that", err)
	}
}
