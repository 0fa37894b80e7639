package intercept

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxBody is the limit for recorded bodies, in bytes.
const maxBody = 256 << 10

// readBody records the body of a write and replaces it in the request.
func (c *Call) readBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	data, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return fmt.Errorf("reading the body of a request: %w", err)
	}
	req.Body = io.NopCloser(bytes.NewReader(data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	if len(data) <= maxBody {
		c.Sent = asJSON(data)
	}
	if c.Name == "" {
		c.Name = metadataOf(asJSON(data)).Name
	}
	return nil
}

// asJSON returns a body as JSON: Go programs send built-in kinds as protobuf. A body that cannot be decoded is returned
// as it is.
func asJSON(body []byte) []byte {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return body
	}
	object, _, err := fromProtobuf.Decode(body, nil, nil)
	if err != nil {
		return body
	}
	data, err := json.Marshal(object)
	if err != nil {
		return body
	}
	return data
}

var fromProtobuf = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

// readResponse records the response to a write, or a rejection, and replaces the body.
func (c *Call) readResponse(resp *http.Response) error {
	c.Code = resp.StatusCode
	refused := resp.StatusCode >= http.StatusBadRequest
	if !refused && !c.IsWrite() || resp.Body == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("reading the answer of the API server: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	resp.ContentLength = int64(len(data))
	if refused {
		var status metav1.Status
		_ = json.Unmarshal(data, &status) // not a Status: no reason
		c.Reason = string(status.Reason)
		c.Message = status.Message
		if status.Details != nil {
			for _, cause := range status.Details.Causes {
				c.Causes = append(c.Causes, string(cause.Type))
			}
		}
		return nil
	}
	m := metadataOf(data)
	c.UID = m.UID
	c.Version = m.ResourceVersion
	c.Generation = m.Generation
	if c.Name == "" {
		c.Name = m.Name
	}
	if len(data) <= maxBody {
		c.Received = data
	}
	return nil
}

type metadata struct {
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Generation      int64  `json:"generation"`
}

func metadataOf(data []byte) metadata {
	var object struct {
		Metadata metadata `json:"metadata"`
	}
	_ = json.Unmarshal(data, &object) // not JSON: no metadata
	return object.Metadata
}
