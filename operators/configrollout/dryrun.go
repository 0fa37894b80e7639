package configrollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/limiter"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// pageSize is the maximal number of objects in one response.
const pageSize = 500

// dryRun prints the decision for each workload and writes nothing.
func dryRun(ctx context.Context, cfg *rest.Config, options Options, namespaces []string, out io.Writer) error {
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	workloads, err := listAll(ctx, c, namespaces)
	if err != nil {
		return err
	}
	l := newLimiter(options, func(limiter.Key) {}, func(string, int, int) {})
	keys := &digest.KeyStore{Reader: c, Namespace: options.keyNamespace()}
	if options.Secrets && keys.Namespace == "" {
		return errors.New("--secrets: set --key-namespace to the namespace of the operator, which has the key of the digests")
	}
	ob := &observer{
		options: options, workloads: c, failed: l.Failed,
		store:             digest.NewStore(digest.Options{Live: c, Ignored: annotation.Ignored, Key: keys.Key}),
		rolledOutByOthers: func(client.Object, []digest.Source) bool { return false },
	}
	if len(namespaces) == 0 {
		ob.namespaces = c
	}
	for _, o := range workloads {
		l.Observe(keyOf(o), ob.entryOf(o))
	}
	busy := 0
	for _, o := range workloads {
		seen, err := ob.observe(ctx, o, digest.ReadLive, time.Now())
		if err != nil {
			return err
		}
		d := policy.Decide(seen)
		if d.Action == policy.Roll && !l.Acquire(keyOf(o), d.Since) {
			seen.Slot = false
			d = policy.Decide(seen)
		}
		if desired.Patch(o, d.Record, d.Template) == nil && d.Action != policy.Wait {
			continue
		}
		busy++
		if _, err := fmt.Fprintf(out, "%s: %s\n", keyOf(o), describe(d)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s: something would be done about %d of %d workloads\n", Name, busy, len(workloads))
	return err
}

// describe formats a decision in one line.
func describe(d policy.Decision) string {
	parts := []string{string(d.Action)}
	if d.WaitReason != "" {
		parts[0] += " (" + d.WaitReason + ")"
	}
	for _, e := range d.Events {
		parts = append(parts, e.Reason+": "+e.Message)
	}
	return strings.Join(parts, "; ")
}

func listAll(ctx context.Context, c client.Client, namespaces []string) ([]client.Object, error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var all []client.Object
	for _, namespace := range namespaces {
		for _, list := range workload.Lists() {
			for {
				err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(list.GetContinue()))
				if err != nil {
					return nil, fmt.Errorf("listing workloads: %w", err)
				}
				page, _ := list.DeepCopyObject().(client.ObjectList) // the next page would overwrite it
				all = append(all, workload.Items(page)...)
				if list.GetContinue() == "" {
					break
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(o client.Object) bool { return reserved(o.GetNamespace()) }), nil
}
