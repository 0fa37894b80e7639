package database

import (
	"flag"
	"fmt"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// Options has the settings of the operators that have flags of their own.
type Options struct {
	// ImageTemplate is a text/template that returns the image of a server from .Engine and .Version. "" means
	// [DefaultImageTemplate].
	ImageTemplate string
	// ImageRegistry is put with a slash in front of the result of ImageTemplate. "" means nothing.
	ImageRegistry string
	// ClusterDomain is the DNS suffix of Services in the status. "" means cluster.local.
	ClusterDomain string
	// UpgradeTemplates lets a new version of the operator update, and so restart, the pods of unchanged databases.
	UpgradeTemplates bool
	// MaxUpgrading is the maximum number of databases that are restarted at a time because of UpgradeTemplates or of deleted
	// scripts. 0 means 1.
	MaxUpgrading int
	// Now is the clock of the schedules. Nil means the system clock.
	Now func() time.Time
}

// DefaultImageTemplate returns the official image of each engine by its short name.
const DefaultImageTemplate = `{{if eq .Engine "postgresql"}}postgres{{else}}{{.Engine}}{{end}}:{{.Version}}`

// BindFlags adds the flags of the options to a flag set.
func (o *Options) BindFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.ImageTemplate, "image-template", DefaultImageTemplate,
		"image of a server, made from {{.Engine}} and {{.Version}}, for databases without spec.image")
	flags.StringVar(&o.ImageRegistry, "image-registry", "",
		"registry, and path in it, of the servers' images: it is put in front of the result of --image-template; "+
			"default: none, so the node's container runtime chooses the registry")
	flags.StringVar(&o.ClusterDomain, "cluster-domain", "cluster.local", "domain of the cluster's Services")
	flags.BoolVar(&o.UpgradeTemplates, "upgrade-templates", false,
		"let a new version of the operator restart databases to bring their pods up to date; default: when they change next")
	flags.IntVar(&o.MaxUpgrading, "max-upgrading", 1,
		"the number of databases that --upgrade-templates restarts at a time; the next one waits until all its members are ready")
}

// Validate returns an error for the first invalid option. It names the flag.
func (o *Options) Validate() error {
	if _, err := o.Image(v1.PostgreSQL, "16"); err != nil {
		return fmt.Errorf("--image-template=%q with --image-registry=%q: %w", o.ImageTemplate, o.ImageRegistry, err)
	}
	if o.ClusterDomain != "" {
		if msgs := validation.IsDNS1123Subdomain(o.ClusterDomain); len(msgs) > 0 {
			return fmt.Errorf("--cluster-domain=%q: %s", o.ClusterDomain, msgs[0])
		}
	}
	if o.MaxUpgrading < 0 {
		return fmt.Errorf("--max-upgrading=%d: it must be 1 or more", o.MaxUpgrading)
	}
	return nil
}

// Image returns the image of a server.
func (o *Options) Image(engine v1.Engine, version string) (string, error) {
	text := o.ImageTemplate
	if text == "" {
		text = DefaultImageTemplate
	}
	parsed, err := template.New("image").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := parsed.Execute(&b, struct{ Engine, Version string }{string(engine), version}); err != nil {
		return "", err
	}
	image := b.String()
	if o.ImageRegistry != "" && image != "" {
		image = strings.TrimSuffix(o.ImageRegistry, "/") + "/" + image
	}
	if image == "" || strings.ContainsAny(image, " \t\n") {
		return "", fmt.Errorf("it makes %q, which is no image", image)
	}
	return image, nil
}

func (o *Options) clusterDomain() string {
	if o.ClusterDomain == "" {
		return "cluster.local"
	}
	return o.ClusterDomain
}
