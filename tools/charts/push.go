package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/registry"
)

// push pushes the archive of a chart to a registry, with the credentials stored by helm registry login or docker login, and
// returns its name with the digest. The creation time in the manifest is the zero time, so that pushing is reproducible.
func push(file, to string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the archive: %w", err)
	}
	c, err := loader.LoadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the archive: %w", err)
	}
	client, err := newClient(to)
	if err != nil {
		return "", err
	}
	name, beginning := to+c.Name(), time.Unix(0, 0).UTC().Format(time.RFC3339)
	result, err := client.Push(data, name+":"+c.Metadata.Version, registry.PushOptCreationTime(beginning))
	if err != nil {
		return "", fmt.Errorf("pushing to %s: %w", name, err)
	}
	return name + "@" + result.Manifest.Digest, nil
}

// newClient returns a client that uses no TLS for a registry on the loopback interface, as images does, and TLS for any
// other.
func newClient(to string) (*registry.Client, error) {
	var options []registry.ClientOption
	if loopback(to) {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("preparing to talk to the registry: %w", err)
	}
	return client, nil
}

func loopback(to string) bool {
	host, _, _ := strings.Cut(to, "/")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
