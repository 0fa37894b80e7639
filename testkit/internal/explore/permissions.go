package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// identity holds the credentials of the operator's requests. Access reviews are created with them.
type identity struct {
	next   http.RoundTripper
	server url.URL
	header http.Header
}

// errNoReview reports that the API server does not support a review, or does not allow it.
var errNoReview = errors.New("the API server refuses it")

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// createReview creates a review object. The API server returns it with a status and does not store it.
func (i *identity) createReview(ctx context.Context, resource schema.GroupVersionResource, review runtime.Object) error {
	body, err := json.Marshal(review)
	if err != nil {
		return fmt.Errorf("encoding a review: %w", err)
	}
	at := i.server
	at.Path = "/apis/" + resource.Group + "/" + resource.Version + "/" + resource.Resource
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking for a review: %w", err)
	}
	req.Header = i.header.Clone()
	resp, err := i.next.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("asking for a review: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body was read
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("asking for a review: %w: %s", errNoReview, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(review); err != nil {
		return fmt.Errorf("reading a review: %w", err)
	}
	return nil
}

// wildcard returns the excessive part of a rule, or "".
func wildcard(rule authorizationv1.ResourceRule) string {
	what := func(list []string, all string) string {
		if slices.Contains(list, "*") {
			return all
		}
		return strings.Join(list, ", ")
	}
	if !slices.Contains(rule.Verbs, "*") && !slices.Contains(rule.Resources, "*") && !slices.Contains(rule.APIGroups, "*") {
		return ""
	}
	groups := what(rule.APIGroups, "every group")
	if groups == "" {
		groups = "the core group"
	}
	return fmt.Sprintf("%s on %s of %s", what(rule.Verbs, "every verb"), what(rule.Resources, "every resource"), groups)
}

// usedPermissions lists the operator's requests that the rule allows.
func usedPermissions(r *run, rule authorizationv1.ResourceRule) string {
	in := func(list []string, x string) bool { return slices.Contains(list, "*") || slices.Contains(list, x) }
	var all []string
	for _, c := range r.operator.Calls() {
		resource := c.Resource
		if c.Subresource != "" {
			resource += "/" + c.Subresource
		}
		verb := c.Verb
		if verb == "apply" {
			verb = "patch"
		}
		if in(rule.APIGroups, c.Group) && in(rule.Resources, resource) && in(rule.Verbs, verb) {
			all = append(all, verb+" "+resource)
		}
	}
	if len(all) == 0 {
		return "in this scenario it used nothing of it"
	}
	slices.Sort(all)
	return "in this scenario it used: " + strings.Join(slices.Compact(all), ", ")
}
