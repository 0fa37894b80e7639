package recorder

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing/iotest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// resolver parses the path of a request as the API server does.
var resolver = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

type transport struct {
	next     http.RoundTripper
	recorder *Recorder
}

// RoundTrip sends the request and records it with the status code of the response.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	entry := ParseRequest(req)
	counts := entry.class() != electing
	if counts {
		t.recorder.count(+1)
	}
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		entry.Code = resp.StatusCode
	}
	if entry.Verb == "create" && entry.Name == "" {
		entry.Name = createdName(req, resp)
	}
	t.recorder.add(entry)
	switch {
	case !counts:
	case entry.Verb == "watch" && entry.Code == http.StatusOK && req.URL.Query().Get("sendInitialEvents") == "true":
		resp.Body = &initialEvents{ReadCloser: resp.Body, ended: sync.OnceFunc(func() { t.recorder.count(-1) })}
	default:
		t.recorder.count(-1)
	}
	return resp, err
}

// initialEvents is the body of a watch that sends the existing objects first.
type initialEvents struct {
	io.ReadCloser
	ended func() // is called after the last of these objects and at the end of the watch
	done  bool   // it was called by Read
	last  []byte // the end of what was read
}

// Read implements io.Reader.
func (i *initialEvents) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	if i.done {
		return n, err
	}
	i.last = append(i.last, p[:n]...)
	if err != nil || bytes.Contains(i.last, []byte(metav1.InitialEventsAnnotationKey)) {
		i.ended()
		i.done = true
	}
	i.last = bytes.Clone(i.last[max(0, len(i.last)-len(metav1.InitialEventsAnnotationKey)):])
	return n, err
}

// Close implements io.Closer. It may be called during Read.
func (i *initialEvents) Close() error {
	i.ended()
	return i.ReadCloser.Close()
}

// ParseRequest returns the request in the terms of the API server. It reads only the path. The name of an object to create
// is in the body.
func ParseRequest(req *http.Request) Request {
	info, err := resolver.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest {
		return Request{Verb: strings.ToLower(req.Method), Name: req.URL.Path}
	}
	verb := info.Verb
	if req.Method == http.MethodPatch && req.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType) {
		verb = "apply"
	}
	namespace := info.Namespace
	if info.APIGroup == "" && info.Resource == "namespaces" {
		namespace = "" // a Namespace is no object of itself
	}
	return Request{
		Verb:        verb,
		Group:       info.APIGroup,
		Resource:    info.Resource,
		Subresource: info.Subresource,
		Namespace:   namespace,
		Name:        info.Name,
		DryRun:      req.URL.Query().Has("dryRun"),
	}
}

// createdName reads the name of a created object from the request or, for generated names, from the response. The path
// of a POST does not include it.
func createdName(req *http.Request, resp *http.Response) string {
	if name := requestedName(req); name != "" || resp == nil {
		return name
	}
	data, err := io.ReadAll(resp.Body)
	rest := io.Reader(bytes.NewReader(data))
	if err != nil {
		rest = io.MultiReader(rest, iotest.ErrReader(err)) // the client gets the same error
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{rest, resp.Body}
	return objectName(data)
}

func requestedName(req *http.Request) string {
	if req.GetBody == nil {
		return ""
	}
	body, err := req.GetBody()
	if err != nil {
		return ""
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(body)
	if err != nil {
		return ""
	}
	return objectName(data)
}

func objectName(data []byte) string {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(data, &object) != nil {
		return ""
	}
	return object.Metadata.Name
}
