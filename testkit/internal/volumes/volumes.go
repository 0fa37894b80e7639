// Package volumes provisions a volume for every PersistentVolumeClaim of the default class, for simulated nodes as
// well.
//
// The scheduler holds back pods with unbound claims, so without this package no StatefulSet with volumes would run.
// Nothing is stored. The library for real provisioners would add gRPC and a DNS server for the two decisions made here.
package volumes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// ClassName is the name of the default StorageClass.
const ClassName = "standard"

// provisioner is the provisioner of the class, and the driver of its volumes.
const provisioner = "testkit.homeostat.dev"

// provisionedBy is the annotation with the provisioner that deletes a volume.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// storageProvisionerAnnotation is the annotation with the provisioner that Kubernetes expects to serve a claim.
const storageProvisionerAnnotation = "volume.kubernetes.io/storage-provisioner"

// Start creates the class and serves its claims until ctx ends.
func Start(ctx context.Context, client kubernetes.Interface) error {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: ClassName, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: provisioner, AllowVolumeExpansion: new(true),
	}
	_, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the default storage class: %w", err)
	}
	// Most errors are conflicts with another controller, so the first retry is early.
	const initialRetryBackoff, maxRetryBackoff = 5 * time.Millisecond, time.Second
	s := &server{client: client, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[item](initialRetryBackoff, maxRetryBackoff))}
	factory := informers.NewSharedInformerFactory(client, 0)
	s.claims = factory.Core().V1().PersistentVolumeClaims().Informer()
	s.volumes = factory.Core().V1().PersistentVolumes().Informer()
	for informer, isClaim := range map[cache.SharedIndexInformer]bool{s.claims: true, s.volumes: false} {
		add := func(obj any) {
			if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
				s.queue.Add(item{claim: isClaim, key: key})
			}
		}
		handlers := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }}
		if _, err := informer.AddEventHandler(handlers); err != nil {
			return fmt.Errorf("watching volumes: %w", err)
		}
	}
	factory.StartWithContext(ctx)
	context.AfterFunc(ctx, s.queue.ShutDown)
	go s.work(ctx)
	return nil
}

// An item is a claim or a volume that has changed.
type item struct {
	claim bool
	key   string
}

type server struct {
	client          kubernetes.Interface
	queue           workqueue.TypedRateLimitingInterface[item]
	claims, volumes cache.SharedIndexInformer
}

func (s *server) work(ctx context.Context) {
	for {
		i, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		if err := s.process(ctx, i); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Serving a volume", "object", i.key)
			s.queue.AddRateLimited(i)
		} else {
			s.queue.Forget(i)
		}
		s.queue.Done(i)
	}
}

func (s *server) process(ctx context.Context, i item) error {
	store := s.volumes.GetStore()
	if i.claim {
		store = s.claims.GetStore()
	}
	obj, exists, err := store.GetByKey(i.key)
	if err != nil || !exists {
		return err
	}
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		return s.provide(ctx, o)
	case *corev1.PersistentVolume:
		return s.reclaim(ctx, o)
	}
	return nil
}

// provide creates a volume for a claim without one that Kubernetes assigns to the provisioner. Kubernetes binds the
// two.
func (s *server) provide(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class := claim.Spec.StorageClassName
	if class == nil || *class != ClassName || claim.DeletionTimestamp != nil {
		return nil
	}
	if claim.Spec.VolumeName != "" {
		return s.expand(ctx, claim)
	}
	if claim.Annotations[storageProvisionerAnnotation] != provisioner {
		return nil
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Annotations: map[string]string{provisionedBy: provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              ClassName,
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: provisioner, VolumeHandle: string(claim.UID)},
			},
		},
	}
	_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating a volume: %w", err)
	}
	return nil
}

// expand grows the volume of a claim to the requested size, as a driver does: first the volume, then the claim's
// status.
func (s *server) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || asked.Cmp(has) <= 0 {
		return nil
	}
	capacity := fmt.Appendf(nil, `{"spec":{"capacity":{"storage":%q}}}`, asked.String())
	_, err := s.client.CoreV1().PersistentVolumes().
		Patch(ctx, claim.Spec.VolumeName, types.MergePatchType, capacity, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("expanding a volume: %w", err)
	}
	status := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"capacity":{"storage":%q}}}`, claim.UID, asked.String())
	_, err = s.client.CoreV1().PersistentVolumeClaims(claim.Namespace).
		Patch(ctx, claim.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("telling a claim of its volume: %w", err)
	}
	return nil
}

// reclaim deletes a volume whose claim was deleted.
func (s *server) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Annotations[provisionedBy] != provisioner || volume.Status.Phase != corev1.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	err := s.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting a volume: %w", err)
	}
	return nil
}
