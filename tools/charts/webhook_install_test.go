package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// The program of a release makes its certificate with the permissions of the chart, and a pod is Ready when the API server
// knows the authority. An upgrade never takes the conversion from a definition. The definition keeps it when the release is
// uninstalled, and a release in another namespace takes it over.
func TestLifeOfWebhooks(t *testing.T) {
	t.Parallel()
	dir := withChart(t, mailbox)
	r := newReleases(t, dir)
	home, elsewhere := r.namespace("home", restricted), r.namespace("elsewhere", restricted)
	address := freeAddress(t)
	set := func(namespace string, more ...string) []string {
		// The flags that take the place of a pod.
		return append([]string{
			"replicas=1", "extraArgs={--webhook-bind-address=" + address + ",--webhook-service=" + namespace + "/mailbox-webhook}",
		}, more...)
	}
	first := r.install(home, load(t, dir), set(home)...)
	r.checkCertificate(first, home, address)

	watch := r.watchConversion(first)
	second := r.upgrade(home, withDefinitions(load(t, dir), "second"), set(home)...)
	r.checkDefinitions("second")
	r.upgrade(home, load(t, dir), set(home, "crds.enabled=false")...)
	watch.check("second")
	r.checkCertificate(second, home, address)
	r.checkPods(home)

	r.uninstall(home)
	r.waitGone(first)
	r.takeOwnership = true
	third := r.install(elsewhere, withDefinitions(load(t, dir), "third"), set(elsewhere)...)
	r.checkDefinitions("third")
	r.checkCertificate(third, elsewhere, address)
	r.checkPods(elsewhere)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// checkCertificate expects that the API server would trust the program, wherever an object of the release makes it call a
// Service.
func (r *releases) checkCertificate(objects []*unstructured.Unstructured, namespace, address string) {
	r.t.Helper()
	checked := map[string]bool{}
	for _, o := range objects {
		if len(services(o)) == 0 {
			continue
		}
		live := o.DeepCopy()
		r.k.Get(live)
		for _, client := range clients(live) {
			service, _ := client["service"].(map[string]any)
			name := fmt.Sprintf("%v.%v.svc", service["name"], service["namespace"])
			if name != "mailbox-webhook."+namespace+".svc" {
				r.t.Errorf("%s %s calls %s", o.GetKind(), o.GetName(), name)
			}
			if err := dial(r.t.Context(), address, name, client["caBundle"]); err != nil {
				r.t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
			checked[o.GetKind()] = true
		}
	}
	if len(checked) != 3 {
		r.t.Errorf("these objects call the program: %v", checked)
	}
}

// dial connects as the API server does.
func dial(ctx context.Context, address, name string, bundle any) error {
	encoded, _ := bundle.(string)
	data, err := base64.StdEncoding.DecodeString(encoded)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(data) {
		return errors.New("there is no certificate authority")
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name}}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// A conversionWatch records all states of a definition.
type conversionWatch struct {
	t    *testing.T
	next func() *unstructured.Unstructured
	want string // the bundle
}

func (r *releases) watchConversion(objects []*unstructured.Unstructured) *conversionWatch {
	r.t.Helper()
	crd := find(r.t, objects, kindDefinition).DeepCopy()
	r.k.Get(crd)
	c, err := dynamic.NewForConfig(r.k.Config)
	if err != nil {
		r.t.Fatal(err)
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	w, err := c.Resource(definitions).Watch(r.t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + crd.GetName(), ResourceVersion: crd.GetResourceVersion(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Stop)
	return &conversionWatch{t: r.t, want: conversion(crd), next: func() *unstructured.Unstructured {
		o, _ := (<-w.ResultChan()).Object.(*unstructured.Unstructured)
		return o
	}}
}

// check expects the conversion to be the same in all states up to that of a chart.
func (w *conversionWatch) check(until string) {
	w.t.Helper()
	for {
		crd := w.next()
		if crd == nil {
			w.t.Fatal("the watch has ended")
		}
		if got := conversion(crd); got != w.want {
			w.t.Errorf("the conversion was %s and is %s", w.want, got)
		}
		if crd.GetAnnotations()[revision] == until {
			return
		}
	}
}

func conversion(crd *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion")
	return fmt.Sprint(value)
}
