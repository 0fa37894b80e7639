package testkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServiceAccount returns the client configuration of a real ServiceAccount in the test's namespace. It has the
// permissions that Env.RBAC grants, in the namespace and on cluster-wide kinds. The name may be empty if the files have
// only one. Rules with wildcards do not apply to cluster-wide kinds.
func (k *K) ServiceAccount(name string) *rest.Config {
	k.t.Helper()
	_, wide := k.t.(clusterWide)
	cfg, err := k.serviceAccount(name, wide)
	if err != nil {
		k.t.Fatalf("acting as a ServiceAccount: %v", err)
	}
	return cfg
}

// A clusterWide test gives operators the permissions of their ClusterRoleBindings in the whole cluster.
type clusterWide interface{ ClusterWide() }

// operatorConfig returns the client configuration of an operator.
func (k *K) operatorConfig(clusterWide bool) (*rest.Config, error) {
	if k.conn.policy == nil {
		return rest.CopyConfig(k.conn.config), nil
	}
	return k.serviceAccount("", clusterWide)
}

func (k *K) serviceAccount(name string, clusterWide bool) (*rest.Config, error) {
	if k.conn.policy == nil {
		return nil, errors.New("Env.RBAC is empty")
	}
	name, err := k.conn.policy.ServiceAccountName(name)
	if err != nil {
		return nil, err
	}
	objects, err := k.conn.policy.Objects(name, k.namespace, k.conn.mapper, clusterWide)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := k.admin.Create(k.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
		k.obs.exclude(object)
	}
	if err := k.waitAuthorized(name, objects); err != nil {
		return nil, err
	}
	token := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: name}}
	if err := k.admin.SubResource("token").Create(k.Context(), account, token); err != nil {
		return nil, fmt.Errorf("requesting a token: %w", err)
	}
	cfg := rest.AnonymousClientConfig(k.conn.config)
	cfg.BearerToken = token.Status.Token
	return cfg, nil
}

// waitAuthorized waits until the API server's authorizer, which has its own cache, has seen each of the roles.
func (k *K) waitAuthorized(account string, objects []client.Object) error {
	ctx, cancel := context.WithTimeout(k.Context(), k.Timeout)
	defer cancel()
	for _, object := range objects {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: fmt.Sprintf("system:serviceaccount:%s:%s", k.Namespace, account),
		}}
		switch role := object.(type) {
		case *rbacv1.Role:
			ask(&review.Spec, role.Rules, k.Namespace)
		case *rbacv1.ClusterRole:
			ask(&review.Spec, role.Rules, "")
		default:
			continue
		}
		err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err := k.admin.Create(ctx, review)
			return review.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("waiting for the rights of %s to take effect: %w", object.GetName(), err)
		}
	}
	return nil
}

// ask fills spec with the first request that the rules allow.
func ask(spec *authorizationv1.SubjectAccessReviewSpec, rules []rbacv1.PolicyRule, namespace string) {
	rule := rules[0]
	if len(rule.NonResourceURLs) > 0 {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0],
		}
		return
	}
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0],
	}
	attributes.Resource, attributes.Subresource, _ = strings.Cut(rule.Resources[0], "/")
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
	}
	spec.ResourceAttributes = attributes
}
