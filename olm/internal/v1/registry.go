package v1

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	image "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/homeostat-dev/homeostat/olm"
)

// Registry is the name of the registry for images that are pushed here. The manifests of the installation use it as the
// placeholder of the user's registry.
const Registry = "registry.example.com"

// images is a registry on the loopback interface.
type images struct{ server *httptest.Server }

func newImages() *images {
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server.StartTLS()
	return &images{server}
}

func (r *images) close() { r.server.Close() }

func (r *images) host() string { return strings.TrimPrefix(r.server.URL, "https://") }

// trust writes the registry's certificate, also for catalogd, and a folder of trusted certificates. Programs with that home
// use this registry under the name Registry.
func (r *images) trust(home string) (trusted, certificate, key string, err error) {
	trusted, certificate, key = filepath.Join(home, "trusted"), filepath.Join(home, "tls.crt"), filepath.Join(home, "tls.key")
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	private, err := x509.MarshalPKCS8PrivateKey(r.server.TLS.Certificates[0].PrivateKey)
	settings := filepath.Join(home, ".config", "containers")
	if err := errors.Join(
		err,
		os.MkdirAll(trusted, 0o700), os.MkdirAll(settings, 0o700),
		os.WriteFile(filepath.Join(trusted, "ca.crt"), public, 0o600),
		os.WriteFile(certificate, public, 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
		os.WriteFile(filepath.Join(settings, "registries.conf"),
			fmt.Appendf(nil, "[[registry]]\nprefix = %q\nlocation = %q\n", Registry, r.host()), 0o600),
		// It replaces this machine's policy for images.
		os.WriteFile(filepath.Join(settings, "policy.json"), []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`), 0o600),
	); err != nil {
		return "", "", "", fmt.Errorf("preparing the registry: %w", err)
	}
	return trusted, certificate, key, nil
}

// push pushes an image to the registry.
func (r *images) push(ctx context.Context, ref string, img image.Image) error {
	rest, ok := strings.CutPrefix(ref, Registry+"/")
	if !ok {
		return fmt.Errorf("pushing %s: it is not in %s", ref, Registry)
	}
	to, err := name.ParseReference(r.host() + "/" + rest)
	if err == nil {
		err = remote.Write(to, img, remote.WithContext(ctx), remote.WithTransport(r.server.Client().Transport))
	}
	if err != nil {
		return fmt.Errorf("pushing %s: %w", ref, err)
	}
	return nil
}

// Publish pushes the images of the bundles, and an image of the catalogs. It changes the catalogs so that they name the
// bundles in the Registry. It returns the name of the catalog's image.
func (l *OLM) Publish(
	ctx context.Context, catalogs map[string]*declcfg.DeclarativeConfig, find olm.Bundles, tag string,
) (ref string, err error) {
	dir, err := os.MkdirTemp("", "catalog")
	if err != nil {
		return "", fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const prefix = Registry + "/" + olm.Repository
	for operator, catalog := range catalogs {
		for _, b := range catalog.Bundles {
			from, err := find(b.Image)
			if err != nil {
				return "", err
			}
			img, err := olm.BundleImage(from)
			if err == nil {
				err = l.registry.push(ctx, prefix+strings.TrimPrefix(b.Image, olm.Repository), img)
			}
			if err != nil {
				return "", err
			}
		}
		olm.Relocate(catalog, prefix)
		if err := write(catalog, filepath.Join(dir, operator)); err != nil {
			return "", err
		}
	}
	img, err := olm.CatalogImage(dir)
	if err != nil {
		return "", err
	}
	ref = prefix + "catalog:" + tag
	return ref, l.registry.push(ctx, ref, img)
}

// write writes a catalog into a new folder.
func write(catalog *declcfg.DeclarativeConfig, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("writing a catalog: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, "catalog.yaml"))
	if err != nil {
		return fmt.Errorf("writing a catalog: %w", err)
	}
	if err := errors.Join(declcfg.WriteYAML(*catalog, f), f.Close()); err != nil {
		return fmt.Errorf("writing a catalog: %w", err)
	}
	return nil
}
