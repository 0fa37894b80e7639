package observed

import (
	"context"
	"fmt"
	"math"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// crdWaitManager is a manager with controllers that wait for their kind without a limit.
type crdWaitManager struct{ manager.Manager }

// GetControllerOptions implements manager.Manager.
func (p crdWaitManager) GetControllerOptions() config.Controller {
	options := p.Manager.GetControllerOptions()
	options.CacheSyncTimeout = math.MaxInt64
	return options
}

// WaitForCRD returns the manager, wrapped in crdWaitManager if the API server does not know the operator's kind yet. It
// returns an error at once if the API server does not respond, instead of after the timeout of the caches.
func WaitForCRD(mgr manager.Manager, k *Kinds) (manager.Manager, error) {
	switch _, err := k.Mapper.RESTMapping(k.Primary.GroupKind(), k.Primary.Version); {
	case err == nil:
		return mgr, nil
	case meta.IsNoMatchError(err):
		return crdWaitManager{mgr}, nil
	default:
		return nil, fmt.Errorf("asking the API server for kind %s: %w", k.Primary.Kind, err)
	}
}

// crdWaitCache is the cache of the operator's kind. Its informer is created after the API server knows the kind.
type crdWaitCache struct {
	cache.Cache
	kinds *Kinds
	log   logr.Logger
}

// GetInformer implements cache.Cache.
func (c crdWaitCache) GetInformer(
	ctx context.Context, o client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	if err := c.kinds.waitPrimaryInstalled(ctx, c.log); err != nil {
		return nil, err
	}
	return c.Cache.GetInformer(ctx, o, opts...)
}

// waitPrimaryInstalled waits for the operator's kind and logs it.
func (k *Kinds) waitPrimaryInstalled(ctx context.Context, logger logr.Logger) error {
	if k.Known(k.Primary) {
		return nil
	}
	// The cache of another namespace may have logged it.
	if _, logged := k.unwatched.LoadOrStore(k.Primary, retry.NotInstalled); !logged {
		logger.Error(k.PrimaryMissingError(), "The operator waits for its kind")
	}
	if err := k.waitInstalled(ctx, k.Primary); err != nil {
		return err
	}
	if _, waited := k.unwatched.LoadAndDelete(k.Primary); waited {
		logger.Info("The operator's kind was installed", "kind", k.Primary.String())
	}
	return nil
}

// PrimaryMissingError returns the error for a missing operator's kind.
func (k *Kinds) PrimaryMissingError() error {
	return fmt.Errorf("kind %s of %s is not installed in the cluster: install the operator's CRDs, for example with "+
		"kubectl apply -k config/crd", k.Primary.Kind, k.Primary.GroupVersion())
}
