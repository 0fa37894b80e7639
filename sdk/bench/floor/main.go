// Command floor is the candidate with the minimum of work: for each new Database it creates the four children with plain
// clients and writes a status. It repairs no drift, observes no change and keeps no state.
//
// With --apply it uses server-side apply in place of POST for the children, which is more expensive for the API server: the
// lower bound for all operators that use server-side apply.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat-dev/homeostat/sdk/bench/work"
)

func main() {
	work.EnableProfiling()
	apply := flag.Bool("apply", false, "use server-side apply")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("KUBECONFIG"), *apply); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // the end of the process makes stop unnecessary
	}
}

// worker holds the clients that all goroutines share.
type worker struct {
	databases       dynamic.NamespaceableResourceInterface
	childClient     kubernetes.Interface
	serverSideApply bool
}

const workers = 8

func run(ctx context.Context, kubeconfig string, apply bool) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	cfg.QPS = -1
	w := worker{serverSideApply: apply}
	custom, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	w.databases = custom.Resource(work.Resource)
	protobuf := rest.CopyConfig(cfg)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	if w.childClient, err = kubernetes.NewForConfig(protobuf); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	events, err := w.databases.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watching databases: %w", err)
	}
	defer events.Stop()
	return w.serve(ctx, events.ResultChan())
}

// serve distributes new objects to the goroutines.
func (w *worker) serve(ctx context.Context, events <-chan watch.Event) error {
	var wg sync.WaitGroup
	// The API server ends the watch of a slow reader, and this program does not restart it.
	const backlog = 100_000
	queue := make(chan *unstructured.Unstructured, backlog)
	for range workers {
		wg.Go(func() {
			for u := range queue {
				if err := w.createObjects(ctx, u); err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "Error:", err)
				}
			}
		})
	}
	defer wg.Wait()
	defer close(queue)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				return errors.New("the watch ended")
			}
			if u, ok := e.Object.(*unstructured.Unstructured); ok && e.Type == watch.Added {
				queue <- u
			}
		}
	}
}

func (w *worker) createObjects(ctx context.Context, u *unstructured.Unstructured) error {
	d := &work.Database{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
		return fmt.Errorf("reading %s: %w", u.GetName(), err)
	}
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(d, work.GroupVersion.WithKind("Database"))}
	set, service, claim, backup := work.StatefulSet(d), work.Service(d), work.Claim(d), work.Backup(d)
	for _, o := range []metav1.Object{set, service, claim, backup} {
		o.SetOwnerReferences(owner)
	}
	var err error
	if w.serverSideApply {
		err = errors.Join(
			w.apply(ctx, appsv1.SchemeGroupVersion.WithResource("statefulsets"), "StatefulSet", set),
			w.apply(ctx, corev1.SchemeGroupVersion.WithResource("services"), "Service", service),
			w.apply(ctx, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "PersistentVolumeClaim", claim),
			w.apply(ctx, batchv1.SchemeGroupVersion.WithResource("cronjobs"), "CronJob", backup))
	} else {
		create := metav1.CreateOptions{}
		_, err1 := w.childClient.AppsV1().StatefulSets(d.Namespace).Create(ctx, set, create)
		_, err2 := w.childClient.CoreV1().Services(d.Namespace).Create(ctx, service, create)
		_, err3 := w.childClient.CoreV1().PersistentVolumeClaims(d.Namespace).Create(ctx, claim, create)
		_, err4 := w.childClient.BatchV1().CronJobs(d.Namespace).Create(ctx, backup, create)
		err = errors.Join(err1, err2, err3, err4)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the children of %s: %w", d.Name, err)
	}
	status := fmt.Appendf(nil, `{"status":{"state":%q}}`, work.StateProvisioned)
	_, err = w.databases.Namespace(d.Namespace).
		Patch(ctx, d.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("writing the status of %s: %w", d.Name, err)
	}
	return nil
}

// apply sends a server-side apply of all fields of the object.
func (w *worker) apply(ctx context.Context, r schema.GroupVersionResource, kind string, o metav1.Object) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encoding a %s: %w", kind, err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return fmt.Errorf("encoding a %s: %w", kind, err)
	}
	delete(fields, "status")
	fields["apiVersion"] = r.GroupVersion().String()
	fields["kind"] = kind
	if raw, err = json.Marshal(fields); err != nil {
		return fmt.Errorf("encoding a %s: %w", kind, err)
	}
	root := "/apis/" + r.GroupVersion().String()
	if r.Group == "" {
		root = "/api/" + r.Version
	}
	return w.childClient.CoreV1().RESTClient().Patch(types.ApplyPatchType).
		AbsPath(root, "namespaces", o.GetNamespace(), r.Resource, o.GetName()).
		Param("fieldManager", "floor").Param("force", "true").Body(raw).Do(ctx).Error()
}
