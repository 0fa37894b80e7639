package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// config is the content of an operator's manifests, as the templates use it.
type config struct {
	Name        string // of the chart
	Path        string // of the chart's folder, for its texts
	Home        string // the URL of the project, if it is known
	Source      string // the URL of the operator, if it is known
	Description string
	Namespace   string
	Deployment  string // its name
	Replicas    int64
	Account     string
	Selector    map[string]string
	Repository  string
	Tag         string

	PodAnnotations  map[string]string
	PodFields       []map[string]any // of the pod, each in an object of its own, without the fields that follow from values
	Container       map[string]any
	ContainerFields []map[string]any
	Args            []string // without those that follow from values
	Settings        []setting
	MetricsAddress  string
	MetricsPort     string // its name

	CRDs          []*unstructured.Unstructured
	Service       *unstructured.Unstructured // of the metrics
	NetworkPolicy *unstructured.Unstructured
	Access        []*unstructured.Unstructured // for the cluster's roles
	Policies      []*unstructured.Unstructured // admission policies and their bindings
	Always        []*unstructured.Unstructured // permissions that do not depend on the watched namespaces
	ClusterWide   []*unstructured.Unstructured // permissions for all namespaces
	MetricsAuth   []*unstructured.Unstructured // permissions for authorizing readers of metrics
	Watched       []*unstructured.Unstructured // permissions in each watched namespace, if the operator watches some
	Own           []*unstructured.Unstructured // the other permissions in that case
	Options       []option
	Webhooks      *webhooks // nil without webhooks
	Namespaced    bool      // whether the operator can work in some namespaces only
}

// Definitions returns the names of the operator's CustomResourceDefinitions. kubectl accepts them as names of the kinds as
// well.
func (c *config) Definitions() []string {
	var all []string
	for _, crd := range c.CRDs {
		all = append(all, crd.GetName())
	}
	return all
}

// read reads the folder config of an operator. config/crd, config/access, config/webhook and config/namespaced are
// optional: an operator without the last one always works in the whole cluster.
func read(dir, name string) (*config, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder: %w", err)
	}
	parts := map[string][]*unstructured.Unstructured{}
	for _, part := range []string{"crd", "access", "webhook", "rbac", "manager", overlayNamespaced, overlayDefault} {
		optional := slices.Contains([]string{"crd", "access", "webhook", overlayNamespaced}, part)
		if parts[part], err = build(filepath.Join(absolute, "config", part), optional); err != nil {
			return nil, err
		}
	}
	c := &config{Name: cmp.Or(name, filepath.Base(absolute)), CRDs: parts["crd"], Namespaced: len(parts[overlayNamespaced]) > 0}
	if err := c.addProject(filepath.Join(absolute, "config", "manifests", "bases")); err != nil {
		return nil, err
	}
	for _, o := range parts["access"] {
		if o.GroupVersionKind().Group == "admissionregistration.k8s.io" {
			c.Policies = append(c.Policies, o)
		} else {
			c.Access = append(c.Access, o)
		}
	}
	c.describe()
	if err := c.addManager(parts["manager"]); err != nil {
		return nil, err
	}
	if err := c.addWebhooks(parts["webhook"]); err != nil {
		return nil, err
	}
	namespaced := slices.DeleteFunc(slices.Clone(parts[overlayNamespaced]), func(o *unstructured.Unstructured) bool {
		return contains(parts["webhook"], o)
	})
	c.addRights(parts["rbac"], namespaced)
	return c, c.addOptions(filepath.Join(absolute, "config"), parts)
}

// The overlays of config.
const (
	overlayDefault    = "default"
	overlayNamespaced = "namespaced"
)

// addProject reads the URLs of the project from the base of its bundle, if there is one.
func (c *config) addProject(bases string) error {
	files, err := filepath.Glob(filepath.Join(bases, "*.clusterserviceversion.yaml"))
	if err != nil || len(files) == 0 {
		return err
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return fmt.Errorf("reading the base of the bundle: %w", err)
	}
	var base struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct{ Links []struct{ Name, URL string } }
	}
	if err := yaml.Unmarshal(data, &base); err != nil {
		return fmt.Errorf("reading %s: %w", files[0], err)
	}
	c.Home = base.Metadata.Annotations["repository"]
	for _, link := range base.Spec.Links {
		if link.Name == "Documentation" {
			c.Source = link.URL
		}
	}
	return nil
}

// build builds a folder with kustomize.
func build(dir string, optional bool) ([]*unstructured.Unstructured, error) {
	disk := filesys.MakeFsOnDisk()
	if optional && !disk.Exists(dir) {
		return nil, nil
	}
	return kustomize(disk, dir)
}

func kustomize(files filesys.FileSystem, dir string) ([]*unstructured.Unstructured, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
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

func (c *config) describe() {
	c.Description = "The operator " + c.Name
	var kinds []string
	for _, crd := range c.CRDs {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kinds = append(kinds, fmt.Sprintf("%s (%s)", kind, group))
	}
	if len(kinds) > 0 {
		c.Description += ", for " + strings.Join(kinds, " and ")
	}
}

// byValue lists the flags that follow from values, the other variables the fields of a pod and of its container.
var (
	byValue = []string{
		"metrics-bind-address", "metrics-secure", "watch-namespaces", "workers", "log-level", "log-format",
	}
	// settings are flags of single operators that are values of their charts, with the default of config/manager.
	settings = []string{
		"require-consent", "max-sources", "max-copies", "max-bytes", "max-namespace-rules", "max-namespace-copies",
		"max-namespace-bytes",
	}
	byValueOfPod     = []string{"containers", "serviceAccountName"}
	byValueContainer = []string{"name", "image", "imagePullPolicy", "args", "env", "resources"}
)

// addManager reads the Deployment of config/manager.
func (c *config) addManager(objects []*unstructured.Unstructured) error {
	var deployment *unstructured.Unstructured
	for _, o := range objects {
		switch o.GetKind() {
		case "Deployment":
			deployment = o
		case "Service":
			c.Service = o
		case "NetworkPolicy":
			c.NetworkPolicy = o
		}
	}
	if deployment == nil || c.Service == nil || c.NetworkPolicy == nil {
		return errors.New("config/manager needs a Deployment, a Service for its metrics and a NetworkPolicy")
	}
	c.Deployment = deployment.GetName()
	c.Namespace = deployment.GetNamespace()
	c.Replicas = replicas(deployment)
	c.Selector, _, _ = unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	pod, _, _ := unstructured.NestedMap(deployment.Object, "spec", "template", "spec")
	c.PodAnnotations, _, _ = unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "annotations")
	c.Account, _, _ = unstructured.NestedString(pod, "serviceAccountName")
	containers, _, _ := unstructured.NestedSlice(pod, "containers")
	ports, _, _ := unstructured.NestedSlice(c.Service.Object, "spec", "ports")
	if len(containers) != 1 || len(ports) != 1 || len(c.Selector) != 1 || len(c.PodAnnotations) == 0 {
		return fmt.Errorf("config/manager: Deployment %s needs one container, one label as selector and an annotation of its "+
			"pods, and Service %s one port", c.Deployment, c.Service.GetName())
	}
	c.Container, _ = containers[0].(map[string]any)
	port, _ := ports[0].(map[string]any)
	c.MetricsPort, _ = port["name"].(string)
	c.PodFields = fields(pod, byValueOfPod)
	c.ContainerFields = fields(c.Container, byValueContainer)
	image, _ := c.Container["image"].(string)
	c.Repository, c.Tag, _ = strings.Cut(image, ":")
	c.addArgs()
	if c.Account == "" || c.MetricsAddress == "" || c.Container["resources"] == nil {
		return fmt.Errorf("config/manager: Deployment %s needs a serviceAccountName, resources and --metrics-bind-address=",
			c.Deployment)
	}
	return nil
}

func replicas(deployment *unstructured.Unstructured) int64 {
	if n, found, err := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); found && err == nil {
		return n
	}
	return 1
}

// fields returns the fields of an object except the excluded ones, sorted, each in an object of its own.
func fields(object map[string]any, except []string) []map[string]any {
	var all []map[string]any
	for name, value := range object {
		if !slices.Contains(except, name) {
			all = append(all, map[string]any{name: value})
		}
	}
	slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(key(a), key(b)) })
	return all
}

func key(one map[string]any) string {
	for name := range one {
		return name
	}
	return ""
}

func (c *config) addArgs() {
	args, _, _ := unstructured.NestedStringSlice(c.Container, "args")
	for _, arg := range args {
		flag, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if flag == "metrics-bind-address" {
			c.MetricsAddress = value
		}
		switch {
		case slices.Contains(settings, flag):
			c.Settings = append(c.Settings, setting{flag, value})
		case !slices.Contains(byValue, flag):
			c.Args = append(c.Args, arg)
		}
	}
}

// setting is a flag of an operator that is a value of its chart.
type setting struct{ Flag, Default string }

// Name returns the name of the value.
func (s setting) Name() string {
	words := strings.Split(s.Flag, "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// Schema returns the JSON schema of the value.
func (s setting) Schema() string {
	if s.IsNumber() {
		return `{"type": "integer", "minimum": 0}`
	}
	return `{"type": "boolean"}`
}

// IsNumber reports whether the value is a number, which Helm keeps as a float unless it is converted.
func (s setting) IsNumber() bool { return s.Default != "true" && s.Default != "false" }

// addRights sorts the roles and bindings by the values that need them: those of both overlays, and those of only one
// overlay, with or without watchNamespaces.
func (c *config) addRights(all, namespaced []*unstructured.Unstructured) {
	for _, o := range rights(all) {
		switch {
		case contains(namespaced, o):
			c.Always = append(c.Always, o)
		case strings.HasSuffix(o.GetName(), "-metrics-auth"):
			c.MetricsAuth = append(c.MetricsAuth, o)
		default:
			c.ClusterWide = append(c.ClusterWide, o)
		}
	}
	for _, o := range rights(namespaced) {
		switch namespace := o.GetNamespace(); {
		case contains(all, o):
		case namespace != "" && namespace != c.Namespace:
			c.Watched = append(c.Watched, o)
		default:
			c.Own = append(c.Own, o)
		}
	}
}

func rights(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group != "rbac.authorization.k8s.io"
	})
}

func contains(objects []*unstructured.Unstructured, o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(other *unstructured.Unstructured) bool {
		return reflect.DeepEqual(o.Object, other.Object)
	})
}
