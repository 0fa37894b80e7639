// Package cloud contains an example operator with resources outside of the cluster: buckets of a cloud that is an HTTP
// service.
package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/external"
)

// Bucket is the desired state of a bucket.
type Bucket struct {
	Size int `json:"size"`
}

// New returns the operator of Sites with the buckets of this kind.
func New(buckets *external.Kind[Bucket]) *sdk.Operator[*Site] {
	return &sdk.Operator[*Site]{
		Name:        "cloud",
		AddToScheme: AddToScheme,
		Owns:        []client.Object{&corev1.ConfigMap{}},
		External:    sdk.ExternalKinds(buckets),
		Connect:     connect,
		Reconcile: func(_ context.Context, p *sdk.Pass[*Site]) error {
			data := sdk.External(p, buckets, "data", Bucket{Size: p.Object.Spec.Size})
			p.Object.Status.LogsAddress = ""
			if p.Object.Spec.Logs {
				p.Object.Status.LogsAddress = sdk.External(p, buckets, "logs", Bucket{Size: 1}).Outputs["address"]
			}
			var options []sdk.ApplyOption
			if !data.Exists() {
				options = append(options, sdk.HoldBack(sdk.Wait("NoBucket", "the bucket for data does not exist yet")))
			}
			sdk.Apply(p, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name},
				Data:       map[string]string{"address": data.Outputs["address"]},
			}, options...)
			return nil
		},
	}
}

// connect returns the credentials in the Secret that the spec names. A Secret that does not exist is reported by [sdk.Ref].
func connect(_ context.Context, p *sdk.Pass[*Site], _ string) (external.Connection, error) {
	name := p.Object.Spec.SecretName
	if name == "" {
		return external.Connection{}, nil
	}
	secret, err := sdk.Ref(p, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil {
		return external.Connection{}, err
	}
	return external.Connection{
		Account: string(secret.Data["account"]), Version: secret.ResourceVersion, Client: Credentials(secret.Data["token"]),
	}, nil
}

// Credentials is the token of an account.
type Credentials string

// Client is a client of the cloud.
type Client struct{ URL string }

// Buckets returns the buckets of the cloud, whose creations carry an idempotency token.
func (c Client) Buckets() *external.Kind[Bucket] {
	return &external.Kind[Bucket]{
		Name: "bucket",
		API: external.ByToken[Bucket]{
			Operations: external.Operations[Bucket]{
				Observe: func(ctx context.Context, id string) (external.State, error) {
					return c.send(ctx, http.MethodGet, "/buckets/"+url.PathEscape(id), "", nil)
				},
				Update: func(ctx context.Context, id string, b Bucket) (external.State, error) {
					return c.send(ctx, http.MethodPut, "/buckets/"+url.PathEscape(id), "", &b)
				},
				Delete: func(ctx context.Context, id string) error {
					_, err := c.send(ctx, http.MethodDelete, "/buckets/"+url.PathEscape(id), "", nil)
					return err
				},
			},
			Create: func(ctx context.Context, token string, b Bucket) (external.State, error) {
				return c.send(ctx, http.MethodPost, "/buckets", token, &b)
			},
		},
		PollInterval:   100 * time.Millisecond,
		RequestTimeout: 2 * time.Second,
		MaxLatency:     2 * time.Second,
		ReadDelay:      500 * time.Millisecond,
		Account:        &external.Account{PerSecond: 100, Burst: 100},
	}
}

// send makes a request.
func (c Client) send(ctx context.Context, method, path, token string, b *Bucket) (external.State, error) {
	var body io.Reader
	if b != nil {
		text, err := json.Marshal(b)
		if err != nil {
			return external.State{}, fmt.Errorf("encoding a bucket: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return external.State{}, fmt.Errorf("making a request: %w", err)
	}
	if token != "" {
		req.Header.Set("Idempotency-Key", token)
	}
	if credentials, err := external.Client[Credentials](ctx); err == nil {
		req.Header.Set("Authorization", "Bearer "+string(credentials))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return external.State{}, errors.New("the cloud does not answer") // the text of a condition is the same each time
	}
	defer func() { _ = resp.Body.Close() }()
	return state(resp)
}

// state returns the resource or the error of a response.
func state(resp *http.Response) (external.State, error) {
	if resp.StatusCode == http.StatusUnauthorized {
		return external.State{}, external.Rejected(errors.New("the cloud does not accept the token"))
	}
	if err := external.CheckResponse(resp); err != nil || resp.StatusCode == http.StatusNoContent {
		return external.State{}, err
	}
	var answer struct {
		ID      string `json:"id"`
		Address string `json:"address"`
		Pending bool   `json:"pending"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return external.State{}, fmt.Errorf("decoding the answer of the cloud: %w", err)
	}
	s := external.State{ID: answer.ID, Outputs: map[string]string{"address": answer.Address}}
	if answer.Pending {
		s.Pending = "the cloud provisions it"
	}
	return s, nil
}
