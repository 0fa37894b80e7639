package mutants_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// TestTwin checks that each twin does its work with exactly the permissions that it ships, changes nothing after a
// restart, repairs each of its children and leaves no residue.
func TestTwin(t *testing.T) {
	t.Parallel()
	for _, m := range mutants.CorrectTwins() {
		t.Run(m.Class, func(t *testing.T) {
			t.Parallel()
			r := begin(t, m)
			for _, step := range m.Steps {
				step.Do(r.K)
				r.waitReconciled(step.Name)
			}
			requests := r.requests()
			r.checkRestart()
			r.checkRepairs(createdNames(requests))
			for _, u := range r.list(resources...) {
				r.Delete(u)
			}
			r.Wait("there is nothing left", func(context.Context) error {
				if left := r.createdBy(requests); len(left) > 0 {
					return fmt.Errorf("there is %s %s", left[0].GetKind(), left[0].GetName())
				}
				return nil
			})
			r.checkRequests(append(requests, r.requests()...))
		})
	}
}

// resources are the kinds of custom resources, children the kinds of the operators' children.
var (
	resources = kinds(v1.GroupVersion, "App", "Archive", "Backup", "Batch", "Bucket", "Cache", "Feed", "Mirror", "Page",
		"Proxy", "Route", "Share", "Sidecar", "Snapshot", "Timer", "Transfer", "Website")
	children = append(kinds(schema.GroupVersion{Version: "v1"}, "ConfigMap", "Secret", "Service"),
		kinds(schema.GroupVersion{Group: "batch", Version: "v1"}, "CronJob")...)
)

func kinds(gv schema.GroupVersion, names ...string) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, name := range names {
		all = append(all, gv.WithKind(name))
	}
	return all
}

func (r *run) list(kinds ...schema.GroupVersionKind) []*unstructured.Unstructured {
	r.t.Helper()
	var all []*unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := r.Client.List(r.Context(), list, client.InNamespace(r.Namespace)); err != nil {
			r.t.Fatal(err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all
}

// waitReconciled waits until every custom resource is reconciled, or gone if it was deleted.
func (r *run) waitReconciled(step string) {
	r.t.Helper()
	r.Wait(step+" has been carried out", func(context.Context) error {
		for _, u := range r.list(resources...) {
			observed, _, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
			if err != nil || observed != u.GetGeneration() || u.GetDeletionTimestamp() != nil {
				return errors.Join(err, fmt.Errorf("%s %s is not reconciled yet", u.GetKind(), u.GetName()))
			}
		}
		return nil
	})
	if err := r.waitIdle(); err != nil {
		r.t.Fatalf("after step %q: %v", step, err)
	}
}

// requests returns the requests of the current process.
func (r *run) requests() []recorder.Request {
	return append(r.op.Requests(), r.op.Recorder().Watches()...)
}

// checkRestart restarts the operator and checks that it changes nothing.
func (r *run) checkRestart() {
	r.t.Helper()
	versions := func() map[string]string {
		all := map[string]string{}
		for _, u := range r.list(append(resources, children...)...) {
			all[u.GetKind()+" "+u.GetName()] = u.GetResourceVersion()
		}
		return all
	}
	before := versions()
	r.restart(func() {})
	if err := r.waitIdle(); err != nil {
		r.t.Fatal(err)
	}
	if diff := cmp.Diff(before, versions()); diff != "" {
		r.t.Errorf("versions before and after a restart (-before +after):\n%s", diff)
	}
}

// edits change an operator-owned field of each kind of child.
var edits = map[string]string{
	"ConfigMap": `{"data":{%q:"changed by hand"}}`,
	"Secret":    `{"data":{%q:"Y2hhbmdlZA=="}}`,
	"Service":   `{"spec":{"selector":{"app":"changed"}}}`,
	"CronJob":   `{"spec":{"suspend":true}}`,
}

// checkRepairs edits and then deletes each child, and checks that the operator restores it.
func (r *run) checkRepairs(made map[string]bool) {
	r.t.Helper()
	want := r.state()
	for _, u := range r.list(children...) {
		if !made[u.GetName()] {
			continue // the user's
		}
		patch := edits[u.GetKind()]
		if data, ok, _ := unstructured.NestedMap(u.Object, "data"); ok {
			patch = fmt.Sprintf(patch, slices.Sorted(maps.Keys(data))[0])
		}
		if err := r.Client.Patch(r.Context(), u, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			r.t.Fatal(err)
		}
		r.waitState(want, u.GetKind()+" "+u.GetName()+" is what it was before it was changed")
		r.Delete(u)
		r.waitState(want, u.GetKind()+" "+u.GetName()+" is what it was before it was deleted")
	}
}

// waitState waits until the children are in a state.
func (r *run) waitState(want map[string]any, what string) {
	r.t.Helper()
	r.Wait(what, func(context.Context) error {
		if diff := cmp.Diff(want, r.state()); diff != "" {
			return fmt.Errorf("it is (-want +got):\n%s", diff)
		}
		return nil
	})
}

// state returns the state of the children without generated values.
func (r *run) state() map[string]any {
	r.t.Helper()
	state := map[string]any{}
	for _, u := range r.list(children...) {
		name := u.GetKind() + " " + u.GetName()
		metadata := map[string]any{"labels": u.GetLabels(), "annotations": u.GetAnnotations()}
		for _, owner := range u.GetOwnerReferences() {
			metadata["owner"] = owner
		}
		u.Object["metadata"] = metadata
		for _, path := range [][]string{
			{"status"}, {"data", "token"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"},
		} {
			unstructured.RemoveNestedField(u.Object, path...)
		}
		state[name] = u.Object
	}
	return state
}

// createdNames returns the names of the objects that were created by requests.
func createdNames(requests []recorder.Request) map[string]bool {
	made := map[string]bool{}
	for _, req := range requests {
		if req.Verb == "create" {
			made[req.Name] = true
		}
	}
	return made
}

// createdBy returns the existing objects that were created by requests, and the custom resources.
func (r *run) createdBy(requests []recorder.Request) []*unstructured.Unstructured {
	r.t.Helper()
	made := createdNames(requests)
	left := slices.DeleteFunc(r.list(children...), func(u *unstructured.Unstructured) bool { return !made[u.GetName()] })
	return append(left, r.list(resources...)...)
}

// checkRequests checks that no request was rejected, and that every permission was used.
func (r *run) checkRequests(requests []recorder.Request) {
	r.t.Helper()
	for _, req := range requests {
		switch {
		case req.Code < http.StatusMultipleChoices, req.Code == http.StatusNotFound, req.Code == http.StatusConflict:
		default:
			r.t.Errorf("unexpected response: %s", req)
		}
	}
	// An informer may list, and does so if the server cannot stream the initial state.
	for _, req := range requests {
		if req.Verb == "watch" {
			req.Verb = "list"
			requests = append(requests, req)
		}
	}
	if diff := cmp.Diff(granted(r.t, r.m), used(requests)); diff != "" {
		r.t.Errorf("permissions (-granted +used):\n%s", diff)
	}
}

// TestCRDs checks that the generated manifests agree with the Go types.
func TestCRDs(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	settings := map[string]string{"a": "b"}
	for _, obj := range []client.Object{
		&v1.App{Spec: v1.AppSpec{Host: "a", Image: "app:1"}},
		&v1.Archive{Spec: v1.ArchiveSpec{Copies: 1, Credentials: "c"}},
		&v1.Backup{Spec: v1.BackupSpec{Schedule: "daily", Env: settings, Options: settings}},
		&v1.Batch{Spec: v1.BatchSpec{Runs: 1}},
		&v1.Bucket{Spec: v1.BucketSpec{Content: "c"}},
		&v1.Cache{Spec: v1.CacheSpec{Shards: 1, Config: "c"}},
		&v1.Feed{Spec: v1.FeedSpec{Topic: "t"}},
		&v1.Mirror{Spec: v1.MirrorSpec{Secret: "s"}},
		&v1.Page{Spec: v1.PageSpec{Template: "t"}},
		&v1.Portal{Spec: v1.PortalSpec{Image: "portal:1"}},
		&v1.Proxy{Spec: v1.ProxySpec{Settings: settings, Metrics: true, Frozen: true}},
		&v1.Route{Spec: v1.RouteSpec{Hosts: []string{"a.example"}}},
		&v1.Share{Spec: v1.ShareSpec{Source: "s", Namespaces: []string{"n"}}},
		&v1.Sidecar{Spec: v1.SidecarSpec{Image: "proxy:1"}},
		&v1.Snapshot{Spec: v1.SnapshotSpec{Volume: "v"}},
		&v1.Timer{Spec: v1.TimerSpec{Value: "v"}},
		&v1.Transfer{Spec: v1.TransferSpec{Data: "d"}},
		&v1.Website{Spec: v1.WebsiteSpec{Files: settings, Exposed: true}},
	} {
		obj.SetNamespace(k.Namespace)
		obj.SetName("full")
		// Strict validation rejects unknown fields instead of pruning them.
		if err := k.Client.Create(t.Context(), obj, client.FieldValidation("Strict")); err != nil {
			t.Errorf("%T: %v", obj, err)
		}
	}
}
