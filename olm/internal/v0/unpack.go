package v0

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// unpacking is the label of OLM's pods that unpack bundles.
const unpacking = "operatorframework.io/bundle-unpack-ref"

// releaseTimeout limits how long stop waits until pods of bundles are no longer held.
const releaseTimeout = 10 * time.Second

// An unpacker does the work of the pods that OLM starts for each image of a bundle: it runs opm on the content of the image,
// with the permissions of the pod.
type unpacker struct {
	client  client.Client
	config  *rest.Config
	kubelet *kubelet.Kubelet
	bundles olm.Bundles
	opm     string
	notice  func(string)
	seen    map[types.UID]bool
}

// start unpacks bundles one after the other until it is stopped.
func (u *unpacker) start(ctx context.Context) (stop func(), err error) {
	clientset, err := kubernetes.NewForConfig(u.config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	release, err := u.kubelet.DelayReadiness(ctx, Namespace, unpacking)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = unpacking }))
	see := func(o any) { u.finishPod(ctx, o.(*corev1.Pod)) } //nolint:forcetypeassert // the informer has pods only
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, o any) { see(o) },
	})
	factory.Start(ctx.Done())
	stop = func() {
		cancel()
		factory.Shutdown()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if err := release(ctx); err != nil {
			u.notice("unpacking bundles no longer: " + err.Error())
		}
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching the pods that unpack bundles: %w", err)
	}
	return stop, nil
}

// finishPod ends a running pod with the result of unpacking its bundle.
func (u *unpacker) finishPod(ctx context.Context, pod *corev1.Pod) {
	if pod.Status.Phase != corev1.PodRunning || u.seen[pod.UID] || ctx.Err() != nil {
		return
	}
	u.seen[pod.UID] = true
	mode := kubelet.Succeeded
	if err := u.unpack(ctx, pod); err != nil {
		u.notice("unpacking a bundle: " + err.Error())
		mode = kubelet.FailedWith(1)
	}
	if err := u.kubelet.Fail(ctx, Namespace, unpacking+"="+pod.Labels[unpacking], mode); err != nil && ctx.Err() == nil {
		u.notice("ending the pod of a bundle: " + err.Error())
	}
}

// unpack runs the command of the container with the content of its mounts.
func (u *unpacker) unpack(ctx context.Context, pod *corev1.Pod) error {
	const image = "CONTAINER_IMAGE"
	container := pod.Spec.Containers[0]
	at := slices.IndexFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == image })
	if at < 0 || len(container.Command) == 0 || container.Command[0] != "opm" {
		return fmt.Errorf("pod %s does not unpack a bundle: it runs %q", pod.Name, container.Command)
	}
	bundle, err := u.bundles(container.Env[at].Value)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "unpack")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	as, err := programs.Impersonate(ctx, u.client, u.config, pod.Namespace, pod.Spec.ServiceAccountName, pod)
	if err != nil {
		return err
	}
	file, err := programs.Kubeconfig(dir, as)
	if err != nil {
		return err
	}
	args := slices.Clone(container.Command[1:])
	for i, arg := range args {
		if arg == "/bundle/" {
			args[i] = filepath.Clean(bundle) + "/"
		}
	}
	return programs.Run(ctx, u.opm, args, "KUBECONFIG="+file, "HOME="+dir, image+"="+container.Env[at].Value)
}
