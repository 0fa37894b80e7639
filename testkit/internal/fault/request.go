package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// skipReason returns why a fault at a request cannot matter, or "".
func skipReason(t baseline.Target) string {
	switch {
	case t.Kind.Resource == "events":
		return "nothing depends on Events"
	case t.Writes && !t.Effective:
		return "the write changes nothing"
	case t.Number > maxRepeats:
		return fmt.Sprintf("the same request about the same object was tried %d times already", maxRepeats)
	default:
		return ""
	}
}

// Reject returns a response that looks like one of the API server.
func Reject(req *http.Request, status metav1.Status) *http.Response {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = metav1.StatusFailure
	header, code := http.Header{"Content-Type": {"application/json"}}, int(status.Code)
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	}
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // cannot happen: every field can be encoded
	}
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)), Request: req,
	}
}

// RejectCreation returns the API server's response to a creation in a terminating namespace.
func RejectCreation(req *http.Request, c *intercept.Call) *http.Response {
	resource := schema.GroupResource{Group: c.Group, Resource: c.Resource}
	status := apierrors.NewForbidden(resource, c.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace)).Status()
	status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace",
		Message: fmt.Sprintf("namespace %s is being terminated", c.Namespace),
	})
	return Reject(req, status)
}
