package testkit

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FillDisk leaves no free space on the disk of the node, as if another file had taken it: writes to emptyDir volumes, to the
// files of containers, and of images, fail with ENOSPC. It takes no space of the machine, and needs real nodes. Claims have
// disks of their own: see K.Volume.
//
// Kubelet notices within 20 s: the node has condition DiskPressure, and pods are evicted, one after the other. Their
// processes end. Kubelet needs space to complete an eviction, so that the pods have ended only after RestoreDisk, with
// condition DisruptionTarget.
func (n *Node) FillDisk() {
	n.k.t.Helper()
	n.act("fill-disk", "fills the disk of %s")
	n.k.t.Cleanup(func() { n.revert("restore-disk") })
}

// SlowDisk limits the reads of each container of the node, and its writes, in operations per second. The limit is for the
// disk of the node and for each volume. Writes that are not synchronized are as fast as before, because they reach memory
// only. It needs real nodes.
func (n *Node) SlowDisk(operations int) {
	n.k.t.Helper()
	n.act(fmt.Sprintf("slow-disk?operations=%d", operations), "slows the disk of %s down")
	n.k.t.Cleanup(func() { n.revert("restore-disk") })
}

// RestoreDisk reverts FillDisk and SlowDisk.
func (n *Node) RestoreDisk() {
	n.k.t.Helper()
	n.act("restore-disk", "restores the disk of %s")
}

// A Volume is the volume of a PersistentVolumeClaim on real nodes.
type Volume struct {
	k     *K
	claim types.NamespacedName
}

// Volume returns the volume of a claim. Its methods fail the test if the claim is not bound.
func (k *K) Volume(claim *corev1.PersistentVolumeClaim) *Volume {
	key := types.NamespacedName{Namespace: k.Namespace, Name: claim.Name}
	if claim.Namespace != "" {
		key.Namespace = claim.Namespace
	}
	return &Volume{k: k, claim: key}
}

// Fill leaves no free space in the volume, as if another file had taken it: writes fail with ENOSPC, in each pod that mounts
// it, until Free or the end of the test. Growth of the claim adds free space, and so do removed files of more than 16 MiB.
// It takes no space of the machine. Kubelet does not react, because only the disks of nodes count for evictions.
func (v *Volume) Fill() {
	v.k.t.Helper()
	v.act("fill", "fills %s")
	v.k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), v.k.Timeout)
		defer cancel()
		_ = v.do(ctx, "free") // it may have been deleted
	})
}

// Free reverts Fill.
func (v *Volume) Free() {
	v.k.t.Helper()
	v.act("free", "frees %s")
}

func (v *Volume) act(action, what string) {
	v.k.t.Helper()
	v.k.obs.record(what, "the volume of claim "+v.claim.Name)
	ctx, cancel := context.WithTimeout(context.Background(), v.k.Timeout)
	defer cancel()
	if err := v.do(ctx, action); err != nil {
		v.k.t.Fatalf("changing the volume of claim %s: %v", v.claim, err)
	}
}

func (v *Volume) do(ctx context.Context, action string) error {
	if v.k.conn.env.Real == nil || v.k.conn.existing {
		return errors.New("real nodes are needed: set Env.Real")
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := v.k.admin.Get(ctx, v.claim, claim); err != nil {
		return fmt.Errorf("reading the claim: %w", err)
	}
	if claim.Spec.VolumeName == "" {
		return errors.New("it is not bound")
	}
	volume := &corev1.PersistentVolume{}
	if err := v.k.admin.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return fmt.Errorf("reading the volume: %w", err)
	}
	if volume.Spec.CSI == nil {
		return errors.New("the driver of real nodes has not provisioned it")
	}
	return v.k.hub().ActOnVolume(ctx, volume.Spec.CSI.VolumeHandle, action)
}
