package recorder

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing/iotest"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// resolver reads a request's path as the API server does.
var resolver = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

type transport struct {
	next     http.RoundTripper
	recorder *Recorder
}

// RoundTrip hands the request on and records it with the code of its answer.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	entry := Describe(req)
	t.recorder.begin(entry)
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		entry.Code = resp.StatusCode
	}
	if entry.Verb == "create" && entry.Name == "" {
		entry.Name = createdName(req, resp)
	}
	t.recorder.end(entry)
	return resp, err //nolint:wrapcheck // a transport hands on what it gets
}

// Describe names a request as the API server would, as far as its path tells: the name of an object that is being created
// is in the body.
func Describe(req *http.Request) Request {
	info, err := resolver.NewRequestInfo(req)
	if err != nil || !info.IsResourceRequest {
		return Request{Verb: strings.ToLower(req.Method), Name: req.URL.Path}
	}
	verb := info.Verb
	if req.Method == http.MethodPatch && req.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType) {
		verb = "apply"
	}
	return Request{
		Verb:        verb,
		Group:       info.APIGroup,
		Resource:    info.Resource,
		Subresource: info.Subresource,
		Namespace:   info.Namespace,
		Name:        info.Name,
		DryRun:      req.URL.Query().Has("dryRun"),
	}
}

// createdName reads the name of a created object, which the path of a POST does not have, from the request or, for
// generated names, from the answer.
func createdName(req *http.Request, resp *http.Response) string {
	if name := requestedName(req); name != "" || resp == nil {
		return name
	}
	data, err := io.ReadAll(resp.Body)
	rest := io.Reader(bytes.NewReader(data))
	if err != nil {
		rest = io.MultiReader(rest, iotest.ErrReader(err)) // the client finds out by itself
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
