package intercept

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// item is the part of an object that identifies it.
type item struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// hide removes the hidden objects from the response to a list of all namespaces, or of cluster-scoped objects.
func (ic *Interceptor) hide(call *Call, resp *http.Response) error {
	if ic.Hidden == nil || call.Verb != "list" || call.Namespace != "" || resp.StatusCode != http.StatusOK {
		return nil
	}
	if media, parameters, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil ||
		media != "application/json" || parameters["as"] == "Table" {
		return nil //nolint:nilerr // a response of another type is not filtered
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("reading the answer of the API server: %w", err)
	}
	if filtered, err := ic.withoutHidden(GroupResourceOf(call.Request), data); err == nil {
		data = filtered
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	resp.ContentLength = int64(len(data))
	resp.Header.Del("Content-Length")
	return nil
}

// withoutHidden returns a list without the hidden objects.
func (ic *Interceptor) withoutHidden(kind GroupResource, list []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(list, &fields); err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if err := json.Unmarshal(fields["items"], &items); err != nil {
		return nil, err
	}
	visible := make([]json.RawMessage, 0, len(items))
	for _, raw := range items {
		var o item
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		if !ic.Hidden(kind, o.Metadata.Namespace, o.Metadata.Name) {
			visible = append(visible, raw)
		}
	}
	if len(visible) == len(items) {
		return list, nil
	}
	var err error
	if fields["items"], err = json.Marshal(visible); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
