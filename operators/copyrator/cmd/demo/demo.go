package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/testkit/sandbox/demo"
)

// home is the namespace of the source, and settings is its name. The rule is in the operator's namespace, so that it needs
// no consent of the other namespaces.
const (
	home       = "default"
	settings   = "settings"
	controller = "copyrator-operator"
)

var copyDemo = demo.Demo{
	Dir: "operators/copyrator", AddToScheme: v1.AddToScheme,
	Steps: func(env *demo.Env) []demo.Step {
		s := &steps{env}
		return []demo.Step{
			{Title: "The article's rule is applied, and a ConfigMap gets its label", Play: s.applyRule},
			{Title: "A namespace comes", Play: s.createNamespace},
			{Title: "The ConfigMap changes", Play: s.changeSource},
			{Title: "A user edits a copy, adds to another one, and deletes a third", Play: s.repairCopies},
			{Title: "A namespace has a ConfigMap of that name already", Play: s.conflict},
			{Title: "The rule is deleted", Play: s.deleteRule},
		}
	},
}

// steps holds the state that the steps share.
type steps struct{ *demo.Env }

// copies is the content of the copy in each namespace except the source's, as one line of text.
type copies map[string]string

func (c copies) String() string {
	var all []string
	for namespace, data := range c {
		all = append(all, namespace+" has "+data)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// all reports whether every namespace has that content.
func (c copies) all(data string) bool {
	for _, has := range c {
		if has != data {
			return false
		}
	}
	return len(c) > 0
}

func (s *steps) observe(ctx context.Context) (copies, error) {
	namespaces := &corev1.NamespaceList{}
	if err := s.Client.List(ctx, namespaces); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	found := copies{}
	for _, n := range namespaces.Items {
		if n.Name == home || strings.HasPrefix(n.Name, "kube-") || n.Status.Phase != corev1.NamespaceActive {
			continue
		}
		o := settingsIn(n.Name)
		switch err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); {
		case apierrors.IsNotFound(err):
			found[n.Name] = "none"
		case err != nil:
			return nil, fmt.Errorf("reading a copy: %w", err)
		default:
			found[n.Name] = strings.TrimPrefix(fmt.Sprint(o.Data), "map")
		}
	}
	return found, nil
}

// await polls until good accepts the copies, and prints them.
func (s *steps) await(ctx context.Context, what string, good func(copies) bool) error {
	began := time.Now()
	seen, err := demo.Await(ctx, func(ctx context.Context) (copies, bool, error) {
		seen, err := s.observe(ctx)
		return seen, err == nil && good(seen), err
	})
	if err != nil {
		return err
	}
	s.Printf("%s, after %s: %s", what, demo.Seconds(time.Since(began)), seen)
	return nil
}

func settingsIn(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: settings}}
}

// update updates the ConfigMap in a namespace.
func (s *steps) update(ctx context.Context, namespace string, change func(*corev1.ConfigMap)) error {
	o := settingsIn(namespace)
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return fmt.Errorf("reading the ConfigMap in %s: %w", namespace, err)
	}
	change(o)
	if err := s.Client.Update(ctx, o); err != nil {
		return fmt.Errorf("changing the ConfigMap in %s: %w", namespace, err)
	}
	return nil
}

func (s *steps) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := s.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func (s *steps) applyRule(ctx context.Context) error {
	source := settingsIn(home)
	source.Labels = map[string]string{"copyrator": "true"}
	source.Data = map[string]string{"color": "blue"}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	blog := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blog"}}
	if err := s.create(ctx, shop, blog, rule(), source); err != nil {
		return err
	}
	return s.await(ctx, "all have it", func(c copies) bool { return c.all("[color:blue]") })
}

// rule returns the article's rule.
func rule() *v1.CopyratorRule {
	return &v1.CopyratorRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: controller, Name: "main-rule", Labels: map[string]string{"module": "copyrator"}},
		Rule: v1.Rule{
			RuleType: "configmap", Selector: v1.Selector{Labels: map[string]string{"copyrator": "true"}},
			SourceNamespace: v1.Names{List: []string{home}, Single: true},
		},
	}
}

func (s *steps) createNamespace(ctx context.Context) error {
	if err := s.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}); err != nil {
		return err
	}
	return s.await(ctx, "it has it, too", func(c copies) bool { return c["team-a"] == "[color:blue]" })
}

func (s *steps) changeSource(ctx context.Context) error {
	if err := s.update(ctx, home, func(o *corev1.ConfigMap) { o.Data["color"] = "green" }); err != nil {
		return err
	}
	return s.await(ctx, "all follow", func(c copies) bool { return c.all("[color:green]") })
}

func (s *steps) repairCopies(ctx context.Context) error {
	if err := s.update(ctx, "team-a", func(o *corev1.ConfigMap) { o.Data["color"] = "red" }); err != nil {
		return err
	}
	if err := s.update(ctx, "shop", func(o *corev1.ConfigMap) { o.Data["size"] = "large" }); err != nil {
		return err
	}
	if err := s.Client.Delete(ctx, settingsIn("blog")); err != nil {
		return fmt.Errorf("deleting a copy: %w", err)
	}
	return s.await(ctx, "all is restored", func(c copies) bool { return c.all("[color:green]") })
}

func (s *steps) conflict(ctx context.Context) error {
	const namespace = "team-b"
	denies := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Annotations: map[string]string{"copyrator.flant.com/deny": "true"},
	}}
	theirs := settingsIn(namespace)
	theirs.Data = map[string]string{"color": "black"}
	if err := s.create(ctx, denies, theirs); err != nil {
		return err
	}
	before := denies.DeepCopy()
	denies.Annotations = nil
	if err := s.Client.Patch(ctx, denies, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("letting copies into %s: %w", namespace, err)
	}
	status, err := s.status(ctx, func(r *v1.CopyratorRule) bool { return r.Status.Conflicts == 1 })
	if err != nil {
		return err
	}
	s.Printf("the rule says: %s", status.Failures[0].Message)
	if err := s.await(ctx, "it is left alone", func(c copies) bool { return c[namespace] == "[color:black]" }); err != nil {
		return err
	}
	if err := s.Client.Delete(ctx, theirs); err != nil {
		return fmt.Errorf("deleting what is in the way: %w", err)
	}
	err = s.await(ctx, "and when it goes the copy comes", func(c copies) bool { return c.all("[color:green]") })
	if err != nil {
		return err
	}
	status, err = s.status(ctx, func(r *v1.CopyratorRule) bool {
		return r.Status.Conflicts == 0 && r.Status.Synced == r.Status.Desired
	})
	if err != nil {
		return err
	}
	s.Printf("the rule says: %d of %d copies are as they should be, and there are %d conflicts",
		status.Synced, status.Desired, status.Conflicts)
	return nil
}

// status polls until good accepts the rule, and returns its status.
func (s *steps) status(ctx context.Context, good func(*v1.CopyratorRule) bool) (v1.CopyratorRuleStatus, error) {
	seen, err := demo.Await(ctx, func(ctx context.Context) (*v1.CopyratorRule, bool, error) {
		r := rule()
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(r), r)
		return r, err == nil && good(r), err
	})
	if err != nil {
		return v1.CopyratorRuleStatus{}, fmt.Errorf("waiting for the rule: %w", err)
	}
	return seen.Status, nil
}

func (s *steps) deleteRule(ctx context.Context) error {
	if err := s.Client.Delete(ctx, rule()); err != nil {
		return fmt.Errorf("deleting the rule: %w", err)
	}
	if err := s.await(ctx, "the copies are gone", func(c copies) bool { return c.all("none") }); err != nil {
		return err
	}
	source := settingsIn(home)
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	s.Printf("the source in %s still says color:%s", home, source.Data["color"])
	return nil
}
