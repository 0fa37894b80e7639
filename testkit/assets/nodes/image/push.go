package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Push gives an image to the registry of real nodes, whose hub listens at a unix socket. Nodes find it under its name, in
// place of any registry that the name has.
func Push(ctx context.Context, socket, imageName string, image v1.Image) error {
	reference, err := name.ParseReference(imageName)
	if err != nil {
		return fmt.Errorf("reading the name of an image: %w", err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	p := &pusher{client: &http.Client{Transport: transport}, repository: "http://hub/v2/" + reference.Context().RepositoryStr()}
	if err := p.push(ctx, reference.Identifier(), image); err != nil {
		return fmt.Errorf("giving image %s to the nodes: %w", imageName, err)
	}
	return nil
}

type pusher struct {
	client     *http.Client
	repository string // its address
}

func (p *pusher) push(ctx context.Context, identifier string, image v1.Image) error {
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	digest, err := image.ConfigName()
	if err != nil {
		return err
	}
	if err := p.blob(ctx, digest, bytes.NewReader(config)); err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		content, err := layer.Compressed() // as the manifest has it, which need not be compressed
		if err != nil {
			return err
		}
		err = p.blob(ctx, digest, content)
		_ = content.Close()
		if err != nil {
			return err
		}
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return err
	}
	return p.send(ctx, http.MethodPut, "/manifests/"+identifier, string(mediaType), bytes.NewReader(manifest))
}

func (p *pusher) blob(ctx context.Context, digest v1.Hash, content io.Reader) error {
	return p.send(ctx, http.MethodPost, "/blobs/uploads/?digest="+url.QueryEscape(digest.String()), "application/octet-stream",
		content)
}

func (p *pusher) send(ctx context.Context, method, path, mediaType string, content io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, method, p.repository+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", mediaType)
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return nil
}
