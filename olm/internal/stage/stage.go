// Package stage has what the tests of both versions of OLM look at: the manifests, objects like the samples, what the
// operators made of these, and the rights that an operator has.
package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// Read returns the objects in a file, of which there is one at least.
func Read(file string) ([]*unstructured.Unstructured, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	defer func() { _ = f.Close() }()
	var all []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(f, 1<<12); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no object", file)
	}
	return all, nil
}

// Operators are the names of all operators that have a template in a folder.
func Operators(templates string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(templates, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("there are no templates in %s", templates))
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".yaml")
	}
	return files, nil
}

// Sample returns an object like the first sample of an operator. Of what else is in the samples none is needed for it.
func Sample(project *sandbox.Project, namespace, name string) (*unstructured.Unstructured, error) {
	for _, sample := range project.Samples {
		kind := sample.GetKind()
		if kind == "Namespace" || kind == "ConfigMap" || project.Name == "configrollout" && kind != "Deployment" {
			continue
		}
		o := sample.DeepCopy()
		for field, value := range o.Object {
			if value == o.GetNamespace() && value != "" {
				o.Object[field] = namespace
			}
		}
		o.SetName(name)
		o.SetNamespace(namespace)
		return o, nil
	}
	return nil, fmt.Errorf("%s has no sample", project.Name)
}

// Children are what operators made in a namespace, and how often each was written.
func Children(ctx context.Context, c client.Client, namespace string) (map[string]string, error) {
	all := map[string]string{}
	for _, gvk := range []string{
		"v1/Pod", "v1/Service", "v1/ConfigMap", "v1/Secret", "v1/PersistentVolumeClaim", "apps/v1/Deployment",
		"apps/v1/StatefulSet",
		"batch/v1/CronJob", "batch/v1/Job", "policy/v1/PodDisruptionBudget", "networking.k8s.io/v1/Ingress",
		"networking.k8s.io/v1/NetworkPolicy", "autoscaling/v2/HorizontalPodAutoscaler",
	} {
		at := strings.LastIndexByte(gvk, '/')
		list := &metav1.PartialObjectMetadataList{}
		list.APIVersion, list.Kind = gvk[:at], gvk[at+1:]+"List"
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("looking for what operators made: %w", err)
		}
		for _, o := range list.Items {
			version := o.ResourceVersion
			if gvk == "v1/PersistentVolumeClaim" { // whose status Kubernetes changes when it has been unused for a while
				o.ResourceVersion, o.ManagedFields = "", nil
				data, err := json.Marshal(o.ObjectMeta)
				if err != nil {
					return nil, fmt.Errorf("looking for what operators made: %w", err)
				}
				version = string(data)
			}
			all[gvk[at+1:]+" "+o.Name] = string(o.UID) + " " + version
		}
	}
	return all, nil
}

// Calmly has a condition looked at five times a second at most. Whoever lists all that there is, or OLM's plans with whole
// bundles in them, otherwise slows down what is waited for.
func Calmly(done func(context.Context) error) func(context.Context) error {
	pace := rate.NewLimiter(rate.Every(200*time.Millisecond), 1)
	return func(ctx context.Context) error {
		if pace.Wait(ctx) != nil {
			return context.DeadlineExceeded // or it would be exceeded before the next look
		}
		return done(ctx)
	}
}

// A Rest is what belongs to objects, once it has not changed for two seconds: controllers of the cluster are not done when
// objects are Ready.
type Rest struct {
	// Children are what was seen last.
	Children map[string]string
	since    time.Time
}

// Look takes what there is now, and returns why that is not at rest.
func (r *Rest) Look(now map[string]string) error {
	const still = 2 * time.Second
	if !maps.Equal(now, r.Children) || r.since.IsZero() {
		r.Children, r.since = now, time.Now()
	}
	if held := time.Since(r.since); held < still {
		return fmt.Errorf("the last change was %v ago", held)
	}
	return nil
}

// needed is what a new version adds: the scripts that it gives to pods that it makes from now on. Pods that are there
// keep theirs.
var needed = regexp.MustCompile(`^ConfigMap .*-db-scripts-[0-9a-f]+$`)

// Upgraded leaves out of the children after an upgrade from 0.1.0 what is meant to change with that.
func Upgraded(before, after map[string]string) {
	for name, was := range before {
		if is := after[name]; strings.HasPrefix(name, "CronJob ") && uid(is) == uid(was) {
			after[name] = was // it runs the new scripts
		}
	}
	maps.DeleteFunc(after, func(name, _ string) bool { return before[name] == "" && needed.MatchString(name) })
}

func uid(state string) string {
	uid, _, _ := strings.Cut(state, " ")
	return uid
}

// Rights asks the API server what a ServiceAccount may do in a namespace.
func Rights(
	ctx context.Context, c client.Client, cfg *rest.Config, account client.ObjectKey, namespace string,
) (map[string]bool, error) {
	as, err := programs.As(ctx, c, cfg, account.Namespace, account.Name, nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	its, err := client.New(as, client.Options{Scheme: c.Scheme(), Mapper: c.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("connecting as ServiceAccount %s: %w", account, err)
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := its.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking what ServiceAccount %s may do: %w", account, err)
	}
	if review.Status.Incomplete {
		return nil, errors.New("the API server does not know all rules: " + review.Status.EvaluationError)
	}
	all := map[string]bool{}
	for _, r := range review.Status.ResourceRules {
		AddRights(all, []rbacv1.PolicyRule{{
			Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
		}})
	}
	for _, r := range review.Status.NonResourceRules {
		AddRights(all, []rbacv1.PolicyRule{{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs}})
	}
	return all, nil
}

// AddRights adds what rules give to rights.
func AddRights(all map[string]bool, rules []rbacv1.PolicyRule) {
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				all[verb+" "+url] = true
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					all[fmt.Sprintf("%s %s.%s %v", verb, resource, group, r.ResourceNames)] = true
				}
			}
		}
	}
}
