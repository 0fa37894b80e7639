package bundle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// config is the content of an operator's folder config.
type config struct {
	name    string // of the operator
	base    *v1alpha1.ClusterServiceVersion
	icon    []byte
	objects []*unstructured.Unstructured // of config/olm or config/default
	samples []*unstructured.Unstructured
	// webhooks are the objects of config/webhook that the operator is installed with. The folder is optional.
	webhooks []*unstructured.Unstructured
	crds     []*apiextensionsv1.CustomResourceDefinition
}

func read(name, dir string) (*config, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder: %w", err)
	}
	c := &config{name: name}
	overlay := filepath.Join(absolute, "config", "olm")
	if _, err := os.Stat(overlay); err != nil {
		overlay = filepath.Join(absolute, "config", "default")
	}
	if c.objects, err = kustomize(overlay); err != nil {
		return nil, err
	}
	if c.samples, err = kustomize(filepath.Join(absolute, "config", "samples")); err != nil {
		return nil, err
	}
	webhook := filepath.Join(absolute, "config", "webhook")
	if _, err := os.Stat(webhook); err == nil {
		if c.webhooks, err = kustomize(webhook); err != nil {
			return nil, err
		}
		c.separateWebhooks()
	}
	for _, o := range c.objects {
		if o.GetKind() != kindDefinition {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := convert(o, crd); err != nil {
			return nil, err
		}
		c.crds = append(c.crds, crd)
	}
	manifests := filepath.Join(absolute, "config", "manifests")
	if c.icon, err = os.ReadFile(filepath.Join(manifests, "icon.svg")); err != nil {
		return nil, fmt.Errorf("reading the icon: %w", err)
	}
	file := filepath.Join(manifests, "bases", packageName(c.name)+".clusterserviceversion.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the base: %w", err)
	}
	c.base = &v1alpha1.ClusterServiceVersion{}
	if err := yaml.UnmarshalStrict(data, c.base); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return c, c.check(file)
}

// check reports fields that the base lacks, and fields that it must not have because other parts of config define them.
func (c *config) check(file string) error {
	spec := &c.base.Spec
	var errs []error
	addError := func(wrong bool, what string) {
		if wrong {
			errs = append(errs, fmt.Errorf("%s: %s", file, what))
		}
	}
	addError(spec.Version.String() == "0.0.0", "spec.version is missing")
	addError(spec.DisplayName == "", "spec.displayName is missing")
	addError(spec.Description == "", "spec.description is missing")
	addError(len(spec.InstallStrategy.StrategySpec.DeploymentSpecs) > 0, "remove spec.install: config says it")
	addError(len(spec.CustomResourceDefinitions.Owned) > 0, "remove spec.customresourcedefinitions: config says it")
	addError(len(spec.WebhookDefinitions) > 0, "remove spec.webhookdefinitions: config says it")
	addError(spec.Replaces != "", "remove spec.replaces: the catalog says it")
	return errors.Join(errs...)
}

// packageName returns the name that users subscribe to.
func packageName(operator string) string { return operator + "-operator" }

// kustomize builds a folder with kustomize.
func kustomize(dir string) ([]*unstructured.Unstructured, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("building %s with kustomize: %w", dir, err)
	}
	var objects []*unstructured.Unstructured
	for _, r := range resources.Resources() {
		data, err := r.MarshalJSON()
		o := &unstructured.Unstructured{}
		if err == nil {
			err = o.UnmarshalJSON(data)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s of %s: %w", r.CurId(), dir, err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// convert decodes an object into its type, and rejects unknown fields.
func convert(from *unstructured.Unstructured, to any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from.Object, to, true); err != nil {
		return fmt.Errorf("reading %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return nil
}

// splitWords splits a name such as maxAge into Max Age.
func splitWords(name string) string {
	var b strings.Builder
	runes := []rune(name)
	upper := func(i int) bool { return i < len(runes) && runes[i] >= 'A' && runes[i] <= 'Z' }
	for i, r := range runes {
		switch {
		case i == 0:
			b.WriteString(strings.ToUpper(string(r)))
			continue
		case upper(i) && (!upper(i-1) || i+1 < len(runes) && !upper(i+1)):
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
