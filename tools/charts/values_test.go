package main

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Each value has its documented effect on the installed objects.
func TestValues(t *testing.T) {
	cases := map[string]struct {
		set   []string
		check func(objects rendered) (got any)
		want  any
	}{
		"the image of the chart's version": {
			nil, func(o rendered) any { return o.container()["image"] }, "registry.invalid/homeostat/*:dev",
		},
		"another image": {
			[]string{"image.repository=elsewhere/op", "image.tag=v2"},
			func(o rendered) any { return o.container()["image"] }, "elsewhere/op:v2",
		},
		"an image by its digest": {
			[]string{"image.repository=elsewhere/op", "image.digest=sha256:0123456789abcdef0123456789abcdef"},
			func(o rendered) any { return o.container()["image"] }, "elsewhere/op@sha256:0123456789abcdef0123456789abcdef",
		},
		"when it is pulled, and with what": {
			[]string{"image.pullPolicy=Always", "imagePullSecrets[0].name=pull"},
			func(o rendered) any { return []any{o.container()["imagePullPolicy"], o.pod("imagePullSecrets")} },
			[]any{"Always", []any{map[string]any{"name": "pull"}}},
		},
		"replicas, of which one at a time is evicted": {
			[]string{"replicas=3"}, func(o rendered) any {
				return []any{o.field("Deployment", "spec", "replicas"), o.field("PodDisruptionBudget", "spec", "maxUnavailable")}
			}, []any{int64(3), int64(1)},
		},
		"one replica, which may be evicted": {
			[]string{"replicas=1"}, func(o rendered) any { return o.has("PodDisruptionBudget") }, false,
		},
		"replicas without a budget": {
			[]string{"replicas=2", "podDisruptionBudget.enabled=false"},
			func(o rendered) any { return o.has("PodDisruptionBudget") }, false,
		},
		"what the program is told": {
			[]string{
				"workers=7", "log.level=debug", "log.format=console", "extraArgs={--shutdown-timeout=1m}",
			},
			func(o rendered) any {
				return []any{o.arg("--metrics-bind-address=:8443"), o.arg("--workers=7"), lastArgs(o, 3)}
			},
			[]any{true, true, []string{"--log-level=debug", "--log-format=console", "--shutdown-timeout=1m"}},
		},
		"where it works": {
			[]string{`watchNamespaces={a,b}`}, func(o rendered) any { return o.arg("--watch-namespaces=a,b") }, true,
		},
		"more environment": {
			[]string{"extraEnv[0].name=A", "extraEnv[0].value=b"},
			func(o rendered) any {
				return slices.ContainsFunc(o.env(), func(e any) bool {
					return gocmp.Equal(e, any(map[string]any{"name": "A", "value": "b"}))
				})
			}, true,
		},
		"where the pods run": {
			[]string{
				"nodeSelector.disk=ssd", "tolerations[0].key=infra", "priorityClassName=high", "affinity.podAffinity.x=y",
				"topologySpreadConstraints[0].maxSkew=1",
			},
			func(o rendered) any {
				return []any{
					o.pod("nodeSelector"), o.pod("tolerations"), o.pod("priorityClassName"), o.pod("affinity"),
					o.pod("topologySpreadConstraints"),
				}
			},
			[]any{
				map[string]any{"disk": "ssd"},
				[]any{map[string]any{"key": "infra"}},
				"high",
				map[string]any{"podAffinity": map[string]any{"x": "y"}},
				[]any{map[string]any{"maxSkew": int64(1)}},
			},
		},
		"resources": {
			[]string{"resources.limits.memory=1Gi"},
			func(o rendered) any { return o.container()["resources"].(map[string]any)["limits"] },
			map[string]any{"memory": "1Gi"},
		},
		"labels and annotations of the pods, but for the label that the selector has": {
			[]string{"podLabels.team=a", `podLabels.app\.kubernetes\.io/name=x`, "podAnnotations.note=b"},
			func(o rendered) any {
				labels, _, _ := unstructured.NestedStringMap(o.get("Deployment"), "spec", "template", "metadata", "labels")
				annotations, _, _ := unstructured.NestedStringMap(o.get("Deployment"), "spec", "template", "metadata", "annotations")
				return []any{labels["team"], labels["app.kubernetes.io/name"] == "x", annotations["note"]}
			},
			[]any{"a", false, "b"},
		},
		"a ServiceAccount of that name": {
			[]string{"serviceAccount.name=me", "serviceAccount.annotations.role=r"},
			func(o rendered) any {
				return []any{
					o.field("ServiceAccount", "metadata", "name"), o.field("ServiceAccount", "metadata", "annotations"),
					o.pod("serviceAccountName"), o.subjects(),
				}
			},
			[]any{"me", map[string]any{"role": "r"}, "me", []string{"me"}},
		},
		"a ServiceAccount that exists": {
			[]string{"serviceAccount.create=false", "serviceAccount.name=theirs"},
			func(o rendered) any { return []any{o.has("ServiceAccount"), o.pod("serviceAccountName"), o.subjects()} },
			[]any{false, "theirs", []string{"theirs"}},
		},
		"rights given by the administrator": {
			[]string{"rbac.create=false"},
			func(o rendered) any { return []any{o.subjects(), o.has("RoleBinding")} },
			[]any{[]string(nil), false},
		},
		"metrics": {
			nil, func(o rendered) any { return []any{o.has("Service"), o.has("ServiceMonitor"), o.ingressRules()} }, []any{
				true,
				false, 1,
			},
		},
		"no metrics, and no connection is allowed": {
			[]string{"metrics.enabled=false"},
			func(o rendered) any {
				return []any{o.has("Service"), o.ingressRules(), o.arg("--metrics-bind-address=0")}
			},
			[]any{false, 0, true},
		},
		"no metrics if that would take a right in the whole cluster": {
			[]string{"watchNamespaces={a}"},
			func(o rendered) any {
				return []any{o.has("Service"), o.ingressRules(), o.arg("--metrics-bind-address=0")}
			},
			[]any{false, 0, true},
		},
		"metrics without authorization": {
			[]string{"watchNamespaces={a}", "metrics.secure=false", "metrics.serviceMonitor.enabled=true"},
			func(o rendered) any {
				return []any{
					o.has("Service"), o.ingressRules(), o.arg("--metrics-secure=false"), o.has("ClusterRole"),
					o.endpoint()["scheme"],
				}
			},
			[]any{true, 1, true, false, nil},
		},
		"a monitor": {
			[]string{
				"metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.labels.release=prom",
				"metrics.serviceMonitor.interval=30s",
			},
			func(o rendered) any {
				return []any{
					o.field("ServiceMonitor", "metadata", "labels").(map[string]any)["release"], o.endpoint()["interval"],
					o.endpoint()["scheme"], o.monitored(),
				}
			},
			[]any{"prom", "30s", "https", true},
		},
		"no policy for the network": {
			[]string{"networkPolicy.enabled=false"}, func(o rendered) any { return o.has("NetworkPolicy") }, false,
		},
		"no cluster-wide object but definitions": {
			[]string{"watchNamespaces={a}"},
			func(o rendered) any { return o.has("ClusterRole") || o.has("ClusterRoleBinding") }, false,
		},
	}
	eachChart(t, func(t *testing.T, dir string) {
		for name, tc := range cases {
			set := slices.Clone(tc.set)
			if !hasPart(dir, overlayNamespaced) && strings.Contains(strings.Join(set, ","), "watchNamespaces") {
				continue
			}
			if hasPart(dir, "webhook") { // see TestWebhookValues
				set = append(set, "webhooks.enabled=false", "crds.enabled=false")
			}
			objects, err := render(t, load(t, dir), "here", set...)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, want := tc.check(rendered{t, objects}), tc.want
			if want == "registry.invalid/homeostat/*:dev" {
				want = "registry.invalid/homeostat/" + load(t, dir).Name() + ":dev"
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s, -want +got:\n%s", name, diff)
			}
		}
	})
}

// rendered is the output of `helm template`.
type rendered struct {
	t       *testing.T
	objects []*unstructured.Unstructured
}

func (r rendered) has(kind string) bool {
	return slices.ContainsFunc(r.objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
}

func (r rendered) get(kind string) map[string]any {
	if o := find(r.t, r.objects, kind); o != nil {
		return o.Object
	}
	return nil
}

func (r rendered) field(kind string, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(r.get(kind), path...)
	return value
}

func (r rendered) pod(name string) any {
	return r.field("Deployment", "spec", "template", "spec", name)
}

func (r rendered) container() map[string]any { return container(find(r.t, r.objects, "Deployment")) }

func (r rendered) env() []any {
	env, _ := r.container()["env"].([]any)
	return env
}

func (r rendered) arg(want string) bool {
	return slices.Contains(stringsOf(r.container()["args"]), want)
}

func lastArgs(r rendered, n int) []string {
	args := stringsOf(r.container()["args"])
	return args[len(args)-n:]
}

// ingressRules returns the number of rules that allow ingress.
func (r rendered) ingressRules() int {
	rules, _ := r.field("NetworkPolicy", "spec", "ingress").([]any)
	return len(rules)
}

func (r rendered) endpoint() map[string]any {
	return r.field("ServiceMonitor", "spec", "endpoints").([]any)[0].(map[string]any)
}

// monitored reports whether the ServiceMonitor selects the Service, by labels and port.
func (r rendered) monitored() bool {
	selector := r.field("ServiceMonitor", "spec", "selector", "matchLabels").(map[string]any)
	labels := r.field("Service", "metadata", "labels").(map[string]any)
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	port := r.field("Service", "spec", "ports").([]any)[0].(map[string]any)
	return len(selector) > 0 && port["name"] == r.endpoint()["port"]
}

// subjects returns the names of the subjects of all bindings, each once.
func (r rendered) subjects() (all []string) {
	for _, o := range r.objects {
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			subject := s.(map[string]any)
			if subject["namespace"] != "here" {
				r.t.Errorf("%s %s is for namespace %v", o.GetKind(), o.GetName(), subject["namespace"])
			}
			all = append(all, subject["name"].(string))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
