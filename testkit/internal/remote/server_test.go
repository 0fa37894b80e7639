package remote_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/remote"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

// client is a client of a server in this process, which answers checks by a function.
type client struct {
	*jrpc2.Client

	t *testing.T
}

func connect(t *testing.T, check func(object map[string]any) string) client {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- remote.Serve(context.WithoutCancel(t.Context()), fromClient, toClient) }()
	c := client{t: t, Client: jrpc2.NewClient(channel.Line(fromServer, toServer), &jrpc2.ClientOptions{
		OnCallback: func(_ context.Context, r *jrpc2.Request) (any, error) {
			var p struct {
				Object map[string]any `json:"object"`
			}
			return check(p.Object), r.UnmarshalParams(&p)
		},
	})}
	t.Cleanup(func() {
		_ = c.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

// call sends a request with parameters in JSON, and reads its result.
func (c client) call(method, params string, result any) {
	c.t.Helper()
	if result == nil {
		result = new(any)
	}
	if err := c.CallResult(c.t.Context(), method, json.RawMessage(params), result); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// fails sends a request, and returns the code and the message of its error.
func (c client) fails(method, params string) (jrpc2.Code, string) {
	c.t.Helper()
	_, err := c.Call(c.t.Context(), method, json.RawMessage(params))
	if err == nil {
		c.t.Fatalf("%s: no error", method)
	}
	return jrpc2.ErrorCode(err), err.Error()
}

// The messages of docs/protocol.md, and errors with their codes.
func TestProtocol(t *testing.T) {
	t.Parallel()
	asked := 0
	c := connect(t, func(map[string]any) string {
		asked++
		return map[bool]string{true: "it was asked once", false: ""}[asked == 1]
	})
	code, message := c.fails("connect", `{"protocol": 99}`)
	if code != jrpc2.InvalidParams || !strings.Contains(message, "99") {
		t.Errorf("another version: %v: %s", code, message)
	}
	c.call("connect", `{"protocol": 1}`, nil)
	var opened struct{ Test, Namespace, Kubeconfig string }
	c.call("test.open", `{"name": "TestProtocol/a", "timeout": 5}`, &opened)
	if data, err := os.ReadFile(opened.Kubeconfig); err != nil || !strings.Contains(string(data), opened.Namespace) {
		t.Errorf("kubeconfig of %s: %v", opened.Namespace, err)
	}
	c.call("apply", `{"test": "1", "objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}`, nil)
	const object = `"test": "1", "apiVersion": "v1", "kind": "ConfigMap", "name": "a"`
	const callback = `{"check": "callback", "callback": 1, "name": "b"}`
	code, message = c.fails("eventually", `{`+object+`, "timeout": 5, "checks": [`+callback+`]}`)
	if code != 1 || !strings.Contains(message, "it was asked once") {
		t.Errorf("an expectation that does not hold: %v: %s", code, message)
	}
	c.call("eventually", `{`+object+`, "checks": [`+callback+`, {"check": "exists"}]}`, nil)
	for _, wrong := range []struct{ method, params, want string }{
		{"eventually", `{` + object + `, "checks": [{"check": "happy"}]}`, `there is no check "happy"`},
		{"operator.fault", `{"test": "1", "action": "confuse"}`, `there is no fault "confuse"`},
		{"operator.watches", `{"test": "1", "cause": "boredom"}`, `there is no cause "boredom"`},
		{"operator.kill", `{"test": "1", "operator": 7}`, "test 1 has no operator 7"},
		{"get", `{"test": "7", "apiVersion": "v1", "kind": "ConfigMap", "name": "a"}`, `there is no open test "7"`},
	} {
		code, message := c.fails(wrong.method, wrong.params)
		if code != jrpc2.InvalidParams || !strings.Contains(message, wrong.want) {
			t.Errorf("%s %s: %v: %s", wrong.method, wrong.params, code, message)
		}
	}
	var closed struct {
		Failures []string
		Log      string
	}
	c.call("test.close", `{"test": "1", "failed": true}`, &closed)
	if len(closed.Failures) != 0 || !strings.Contains(closed.Log, "apply configmaps a") {
		t.Errorf("the end of a failed test: %+v", closed)
	}
}
