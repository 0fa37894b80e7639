package team

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/homeostat-dev/homeostat/sdk/external"
)

// requestTimeout bounds one request to the registry.
const requestTimeout = 10 * time.Second

// HTTPRegistry is a registry with this base URL.
type HTTPRegistry string

// Register implements Registry.
func (r HTTPRegistry) Register(ctx context.Context, key, name string) (id string, err error) {
	return r.send(ctx, http.MethodPost, "/teams?name="+url.QueryEscape(name), http.Header{"Idempotency-Key": {key}})
}

// Deregister implements Registry.
func (r HTTPRegistry) Deregister(ctx context.Context, key string) error {
	_, err := r.send(ctx, http.MethodDelete, "/teams/"+key, nil)
	return err
}

// send sends a request and returns the ID in the response, which may be empty.
func (r HTTPRegistry) send(ctx context.Context, method, path string, header http.Header) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, string(r)+path, nil)
	if err != nil {
		return "", fmt.Errorf("asking the registry: %w", err)
	}
	maps.Copy(req.Header, header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking the registry: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := external.CheckResponse(resp); err != nil {
		return "", fmt.Errorf("asking the registry: %w", err)
	}
	var entry struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&entry); err != nil {
		return "", fmt.Errorf("decoding the answer of the registry: %w", err)
	}
	return entry.ID, nil
}
