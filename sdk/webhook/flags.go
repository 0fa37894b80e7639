package webhook

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The names of the flags.
const (
	addressFlag       = "webhook-bind-address"
	certDirFlag       = "webhook-cert-dir"
	serviceFlag       = "webhook-service"
	configurationFlag = "webhook-configuration"
	lifetimeFlag      = "webhook-ca-lifetime"
)

// minLifetime is the shortest lifetime of an authority: certificates have a precision of a second.
const minLifetime = 10 * time.Second

// mountedCertDir is the folder into which OLM and the manifests of kubebuilder mount a certificate.
const mountedCertDir = "/tmp/k8s-webhook-server/serving-certs"

// DefineFlags defines the flags of the webhook server of a program: --webhook-bind-address, --webhook-cert-dir,
// --webhook-service, --webhook-configuration and --webhook-ca-lifetime. program.Main calls it. A program.Program with
// webhooks calls it in its function Flags. A second call for the same flags has no effect.
func DefineFlags(fs *flag.FlagSet) {
	if serverOf(fs) != nil {
		return
	}
	s := &server{address: "0", service: fs.Name() + "-webhook", configuration: fs.Name() + "-webhook"}
	if _, inCluster := os.LookupEnv("KUBERNETES_SERVICE_HOST"); inCluster {
		s.address = ":9443"
	}
	if hasCertificate(mountedCertDir) == nil {
		s.certDir = mountedCertDir
	}
	fs.Var(&addressValue{s}, addressFlag,
		`address that serves webhooks, "0" for none; default: ":9443" in a cluster, "0" elsewhere`)
	fs.Func(certDirFlag, "folder with tls.crt and tls.key, as of cert-manager, which are read again when they change; "+
		"default: "+mountedCertDir+" if it has them, else the program renews its own certificate", s.setCertDir)
	fs.Func(serviceFlag, "Service in front of the webhooks, as NAME or NAMESPACE/NAME, for a certificate of its own; default: "+
		s.service, s.setService)
	fs.StringVar(&s.configuration, configurationFlag, s.configuration,
		"name of the ValidatingWebhookConfiguration and of the MutatingWebhookConfiguration that get a certificate of its own")
	s.lifetime = 365 * 24 * time.Hour
	fs.Func(lifetimeFlag, "lifetime of the authority of a certificate of its own; default: 8760h", s.setLifetime)
}

// serverOf returns the server that the flags configure, or nil if DefineFlags was not called for them.
func serverOf(fs *flag.FlagSet) *server {
	if fs == nil {
		return nil
	}
	f := fs.Lookup(addressFlag)
	if f == nil {
		return nil
	}
	for value := f.Value; ; {
		switch v := value.(type) {
		case *addressValue:
			return v.server
		case interface{ Unwrap() flag.Value }:
			value = v.Unwrap()
		default:
			return nil
		}
	}
}

// addressValue is the value of the flag by which a set of flags has its server.
type addressValue struct{ server *server }

// String implements flag.Value.
func (v *addressValue) String() string {
	if v.server == nil {
		return ""
	}
	return v.server.address
}

// Set implements flag.Value.
func (v *addressValue) Set(text string) error {
	if text != "0" {
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // it makes no request
		}
		if err != nil || port == "" || port == "0" {
			return errors.New(
				`it must be an address with a port up to 65535, such as :9443 or 127.0.0.1:9443, or "0" for none`)
		}
	}
	v.server.address = text
	return nil
}

func (s *server) setCertDir(text string) error {
	if err := hasCertificate(text); err != nil {
		return err
	}
	s.certDir = text
	return nil
}

// hasCertificate returns an error if a folder does not have the files of a certificate.
func hasCertificate(folder string) error {
	if folder == "" {
		return errors.New("it must be a folder")
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("the certificate of the webhooks is missing: %w: mount the Secret with tls.crt and tls.key there",
				err)
		}
	}
	return nil
}

func (s *server) setService(text string) error {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		namespace, name = "default", text
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1035Label(name)) > 0 {
		return errors.New("it must be the name of a Service, such as team-webhook or team-system/team-webhook")
	}
	s.service = text
	return nil
}

func (s *server) setLifetime(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < minLifetime {
		return errors.New("it must be a duration of at least 10s, such as 8760h")
	}
	s.lifetime = d
	return nil
}
