package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
	"github.com/homeostat-dev/homeostat/testkit/internal/tempfolder"
)

// adminKubeconfig names the kubeconfig of an administrator, for a command that runs as a ServiceAccount.
const adminKubeconfig = "TESTKIT_ADMIN_KUBECONFIG"

// authorizedTimeout bounds the wait until the API server knows new roles. It takes milliseconds.
const authorizedTimeout = 30 * time.Second

// execOptions holds the flags of exec about objects and permissions.
type execOptions struct {
	crds, rbac list
	account    string
}

// definitions returns the objects to install.
func (o *execOptions) definitions() ([]*unstructured.Unstructured, error) {
	return readAll(o.crds)
}

// policy returns the permissions and the name of the ServiceAccount, or nil if the command is an administrator.
func (o *execOptions) policy() (*rbac.Policy, string, error) {
	if len(o.rbac) == 0 {
		if o.account != "" {
			return nil, "", usagef("exec: --service-account=%s: its roles are not known: give their files with --rbac", o.account)
		}
		return nil, "", nil
	}
	objects, err := readAll(o.rbac)
	if err != nil {
		return nil, "", err
	}
	files := strings.Join(o.rbac, ", ")
	policy, err := rbac.Parse(objects)
	if err != nil {
		return nil, "", usagef("exec: %s: %w", files, err)
	}
	name, err := policy.ServiceAccountName(o.account)
	if err != nil {
		return nil, "", usagef("exec: %s: %w: name one with --service-account", files, err)
	}
	return policy, name, nil
}

func readAll(files []string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, file := range files {
		objects, err := scenario.ReadObjects(file)
		if err != nil {
			return nil, usagef("exec: %w", firstOf(err))
		}
		all = append(all, objects...)
	}
	return all, nil
}

// account is a ServiceAccount with a namespace of its own.
type account struct {
	client    kube.Client
	namespace *corev1.Namespace
	dir       string // contains the kubeconfig
}

// newAccount creates a namespace and in it a ServiceAccount with the permissions of the policy.
func newAccount(ctx context.Context, lease *environment.Lease, policy *rbac.Policy, name string) (*account, error) {
	admin, err := kube.New(lease.Config, kube.Options{})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	owner, err := newCreator()
	if err != nil {
		return nil, err
	}
	meta, err := owner.metadata()
	if err != nil {
		return nil, err
	}
	meta.GenerateName = "exec-"
	a := &account{client: admin, namespace: &corev1.Namespace{ObjectMeta: meta}}
	if err := admin.Create(ctx, a.namespace); err != nil {
		return nil, fmt.Errorf("making a namespace: %w", err)
	}
	if err := a.grant(ctx, lease.Config, policy, name); err != nil {
		a.remove(context.WithoutCancel(ctx))
		return nil, err
	}
	return a, nil
}

func (a *account) grant(ctx context.Context, cfg *rest.Config, policy *rbac.Policy, name string) error {
	objects, err := policy.Objects(name, a.namespace, a.client.RESTMapper(), true)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := a.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
		if err := a.waitAuthorized(ctx, name, object); err != nil {
			return err
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := a.client.SubResource("token").Create(ctx, objects[0], token); err != nil {
		return fmt.Errorf("requesting a token of ServiceAccount %s: %w", name, err)
	}
	own := rest.AnonymousClientConfig(cfg)
	own.BearerToken = token.Status.Token
	data, err := cluster.Kubeconfig(own)
	if err != nil {
		return err
	}
	if a.dir, err = tempfolder.Make(); err != nil {
		return fmt.Errorf("making a folder for a kubeconfig: %w", err)
	}
	if err := os.WriteFile(a.kubeconfig(), data, 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

func (a *account) kubeconfig() string { return filepath.Join(a.dir, "kubeconfig") }

// environ returns the variables of a command that runs as the account.
func (a *account) environ() []string {
	return []string{
		"KUBECONFIG=" + a.kubeconfig(), "NAMESPACE=" + a.namespace.Name, "POD_NAMESPACE=" + a.namespace.Name,
	}
}

// waitAuthorized waits until the authorizer of the API server, which has its own cache, has seen a binding.
func (a *account) waitAuthorized(ctx context.Context, name string, object kube.Object) error {
	var ref rbacv1.RoleRef
	switch binding := object.(type) {
	case *rbacv1.RoleBinding:
		ref = binding.RoleRef
	case *rbacv1.ClusterRoleBinding:
		ref = binding.RoleRef
	default:
		return nil
	}
	var rules []rbacv1.PolicyRule
	switch ref.Kind {
	case "Role":
		var role rbacv1.Role
		if err := a.client.Get(ctx, kube.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}, &role); err != nil {
			return fmt.Errorf("reading Role %s: %w", ref.Name, err)
		}
		rules = role.Rules
	default:
		var role rbacv1.ClusterRole
		if err := a.client.Get(ctx, kube.ObjectKey{Name: ref.Name}, &role); err != nil {
			return fmt.Errorf("reading ClusterRole %s: %w", ref.Name, err)
		}
		rules = role.Rules
	}
	if len(rules) == 0 || len(rules[0].Resources) == 0 {
		return nil
	}
	resource, subresource, _ := strings.Cut(rules[0].Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: object.GetNamespace(), Verb: rules[0].Verbs[0], Group: rules[0].APIGroups[0],
		Resource: resource, Subresource: subresource,
	}
	if len(rules[0].ResourceNames) > 0 {
		attributes.Name = rules[0].ResourceNames[0]
	}
	allowed := func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: fmt.Sprintf("system:serviceaccount:%s:%s", a.namespace.Name, name), ResourceAttributes: attributes,
		}}
		err := a.client.Create(ctx, review)
		return review.Status.Allowed, err
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, authorizedTimeout, true, allowed); err != nil {
		return fmt.Errorf("waiting for the rights of %s to take effect: %w", object.GetName(), err)
	}
	return nil
}

// remove deletes the namespace, which owns all objects of the account, and the kubeconfig.
func (a *account) remove(ctx context.Context) {
	_ = deleteNamespace(ctx, a.client, a.namespace) // the control plane usually ends, too
	if a.dir != "" {
		_ = tempfolder.Remove(a.dir)
	}
}
