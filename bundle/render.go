package bundle

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const kindDefinition = "CustomResourceDefinition"

// Channel is the channel that users subscribe to. The catalog generates it from the stable versions of a major version.
const Channel = "stable-v0"

// A Bundle is the content of a bundle: one version of one operator.
type Bundle struct {
	// Operator is the name of the operator.
	Operator string
	// Package is the name that users subscribe to.
	Package string
	// CSV is the ClusterServiceVersion.
	CSV *v1alpha1.ClusterServiceVersion
	// Objects are all other objects, sorted by kind and name.
	Objects []*unstructured.Unstructured
}

// Render returns the bundle of the operator in the folder dir, which has the name of the operator. The bundle runs the given
// image, which must be named by digest, because a tag can move.
func Render(dir, image string) (*Bundle, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder: %w", err)
	}
	return RenderAs(filepath.Base(absolute), dir, image)
}

// RenderAs is [Render] for an operator whose folder may have another name than the operator.
func RenderAs(name, dir, image string) (*Bundle, error) {
	if err := checkDigest(image); err != nil {
		return nil, err
	}
	c, err := read(name, dir)
	if err != nil {
		return nil, err
	}
	owned, err := c.owned(dir)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Operator: c.name, Package: packageName(c.name), CSV: c.base.DeepCopy()}
	csv := b.CSV
	csv.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.ClusterServiceVersionKind}
	csv.Name = b.Package + ".v" + csv.Spec.Version.String()
	csv.Namespace = ""
	csv.Spec.CustomResourceDefinitions.Owned = owned
	csv.Spec.Icon = []v1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString(c.icon), MediaType: "image/svg+xml"}}
	csv.Spec.RelatedImages = []v1alpha1.RelatedImage{{Name: c.name, Image: image}}
	csv.Spec.InstallModes = []v1alpha1.InstallMode{
		{Type: v1alpha1.InstallModeTypeOwnNamespace},
		{Type: v1alpha1.InstallModeTypeSingleNamespace},
		{Type: v1alpha1.InstallModeTypeMultiNamespace},
		{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true},
	}
	examples, err := c.examples()
	if err != nil {
		return nil, err
	}
	set(&csv.Annotations, "alm-examples", examples)
	set(&csv.Annotations, "containerImage", image)
	for _, arch := range architectures(dir) {
		set(&csv.Labels, "operatorframework.io/arch."+arch, "supported")
	}
	set(&csv.Labels, "operatorframework.io/os.linux", "supported")
	if err := b.install(c, image); err != nil {
		return nil, err
	}
	return b, b.addWebhooks(c)
}

// architectures returns the architectures that the image of an operator is made for. The image of a function in Python has
// packages of the machine that made it.
func architectures(dir string) []string {
	if isFunction(dir) {
		return []string{runtime.GOARCH}
	}
	return []string{"amd64", "arm64"}
}

func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// checkDigest rejects an image that is not named by digest.
func checkDigest(image string) error {
	name, digest, found := strings.Cut(image, "@sha256:")
	const hex = 64
	if !found || name == "" || len(digest) != hex || strings.Trim(digest, "0123456789abcdef") != "" {
		return fmt.Errorf("image %q has no digest: name it as NAME@sha256:DIGEST, as make images prints it", image)
	}
	return nil
}

// examples returns the samples of the owned kinds in served versions, in the form of the annotation alm-examples.
func (c *config) examples() (string, error) {
	all := []map[string]any{}
	for _, o := range c.samples {
		if c.isOwned(o) {
			o = o.DeepCopy()
			o.SetNamespace("") // a console creates it in the current namespace
			all = append(all, o.Object)
		}
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the samples: %w", err)
	}
	return string(data), nil
}

func (c *config) isOwned(o *unstructured.Unstructured) bool {
	for _, crd := range c.crds {
		gvk := o.GroupVersionKind()
		isServed := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Served && v.Name == gvk.Version
		})
		if isServed && gvk.Group == crd.Spec.Group && gvk.Kind == crd.Spec.Names.Kind {
			return true
		}
	}
	return false
}

// uninstallable lists kinds that OLM does not install.
var uninstallable = []string{"Namespace", "NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

// install adds the Deployment, its permissions and all other objects to the bundle.
func (b *Bundle) install(c *config, image string) error {
	roles, bindings := map[string][]rbacv1.PolicyRule{}, []*unstructured.Unstructured{}
	strategy := &b.CSV.Spec.InstallStrategy
	strategy.StrategyName = v1alpha1.InstallStrategyNameDeployment
	var account string
	for _, o := range c.objects {
		switch kind := o.GetKind(); kind {
		case "Deployment":
			d := &appsv1.Deployment{}
			if err := convert(o, d); err != nil {
				return err
			}
			account = d.Spec.Template.Spec.ServiceAccountName
			d.Spec.Template.Spec.Containers[0].Image = image
			strategy.StrategySpec.DeploymentSpecs = append(strategy.StrategySpec.DeploymentSpecs,
				v1alpha1.StrategyDeploymentSpec{Name: d.Name, Label: d.Labels, Spec: d.Spec})
		case "ClusterRole", "Role":
			role := &rbacv1.ClusterRole{}
			if err := convert(o, role); err != nil {
				return err
			}
			roles[kind+"/"+o.GetName()] = role.Rules
		case "ClusterRoleBinding", "RoleBinding":
			bindings = append(bindings, o)
		case "ServiceAccount": // OLM creates it
		default:
			if slices.Contains(uninstallable, kind) {
				continue
			}
			b.add(o)
		}
	}
	if len(strategy.StrategySpec.DeploymentSpecs) != 1 {
		return fmt.Errorf("config has %d Deployments, and should have one", len(strategy.StrategySpec.DeploymentSpecs))
	}
	granted, err := b.grant(account, roles, bindings)
	if err != nil {
		return err
	}
	for _, o := range c.objects {
		if strings.HasSuffix(o.GetKind(), "Role") && !slices.Contains(granted, o.GetKind()+"/"+o.GetName()) {
			b.add(o) // for users
		}
	}
	slices.SortFunc(b.Objects, func(x, y *unstructured.Unstructured) int {
		return strings.Compare(x.GetKind()+" "+x.GetName(), y.GetKind()+" "+y.GetName())
	})
	return nil
}

func (b *Bundle) add(o *unstructured.Unstructured) {
	o = o.DeepCopy()
	o.SetNamespace("") // OLM sets it
	b.Objects = append(b.Objects, o)
}

// grant gives the operator the permissions of the bindings, and returns the roles that the bindings name.
func (b *Bundle) grant(
	account string, roles map[string][]rbacv1.PolicyRule, bindings []*unstructured.Unstructured,
) (granted []string, err error) {
	var everywhere, own []rbacv1.PolicyRule
	for _, o := range bindings {
		binding := &rbacv1.ClusterRoleBinding{}
		if err := convert(o, binding); err != nil {
			return nil, err
		}
		role := binding.RoleRef.Kind + "/" + binding.RoleRef.Name
		rules, ok := roles[role]
		if !ok || len(binding.Subjects) != 1 || binding.Subjects[0].Name != account {
			return nil, fmt.Errorf("%s %s: a bundle can give rights to %s alone, by a role that config has",
				o.GetKind(), o.GetName(), account)
		}
		granted = append(granted, role)
		if o.GetKind() == "ClusterRoleBinding" {
			everywhere = append(everywhere, rules...)
		} else {
			own = append(own, rules...)
		}
	}
	spec := &b.CSV.Spec.InstallStrategy.StrategySpec
	if len(everywhere) > 0 {
		spec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: account, Rules: everywhere}}
	}
	if len(own) > 0 {
		spec.Permissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: account, Rules: own}}
	}
	return granted, nil
}
