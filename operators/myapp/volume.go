package myapp

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/policy"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/status"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// volumeState is the volume of an app.
type volumeState struct {
	claim      *corev1.PersistentVolumeClaim // the live claim, or nil
	singleNode bool                          // only one node at a time can mount it
	planned    []sdk.AnyChild                // our own claim, if any: a foreign claim of that name must not be mounted
	granted    string                        // the size of our own claim, if the specification asks for more
	held       []sdk.ApplyOption             // holds back the Deployment, if its pods must not be replaced
}

// applyVolume applies the claim. Our own claim stays when the storage is disabled: only the deletion of the MyApp deletes
// its data.
func applyVolume(p *sdk.Pass[*v1.MyApp]) (volumeState, error) {
	storage := &p.Object.Spec.Storage
	if storage.ExistingClaim != "" {
		return existingClaim(p, storage)
	}
	want, err := desired.Claim(p.Object)
	if err != nil {
		return volumeState{}, sdk.Invalid("InvalidSize", "%v", err)
	}
	live, exists := sdk.Live(p, want.DeepCopy())
	if !exists && !storage.IsEnabled() {
		return volumeState{}, nil
	}
	options := append([]sdk.ApplyOption{sdk.AdoptIf(isRetainedFor(p.Object))}, adoptOptions(p.Object)...)
	modes := storage.AccessModes
	if exists {
		policy.KeepSize(want, live)
		modes = live.Spec.AccessModes
	} else { // a retained claim is read after its adoption
		options = append(options, sdk.CreateOnly())
	}
	if p.Object.Spec.DeletionPolicy == v1.DeletionRetainData {
		options = append(options, sdk.Retain())
	}
	child := sdk.Apply(p, want, options...)
	claim := child.Live()
	claim.Name = want.Name
	return volumeState{
		claim: claim, singleNode: storage.IsEnabled() && policy.SingleNode(modes), planned: []sdk.AnyChild{child},
		granted: policy.Granted(want, claim),
	}, nil
}

// existingClaim reads a claim that the operator does not own. The access modes in spec.storage do not apply to it.
func existingClaim(p *sdk.Pass[*v1.MyApp], storage *v1.Storage) (volumeState, error) {
	if !storage.IsEnabled() {
		return volumeState{}, nil
	}
	claim, err := sdk.Ref(p, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: storage.ExistingClaim}})
	if err != nil {
		return volumeState{}, err
	}
	singleNode := policy.SingleNode(claim.Spec.AccessModes)
	if singleNode && policy.MultiplePods(p.Object) {
		status.Volume(p.Object, claim)
		return volumeState{}, sdk.Invalid("VolumeNotShared", "claim %s has access modes %v and cannot back several replicas: "+
			"run one replica, or name a claim with ReadWriteMany in a new MyApp", claim.Name, claim.Spec.AccessModes)
	}
	volume := volumeState{claim: claim, singleNode: singleNode}
	if claim.DeletionTimestamp != nil { // it exists as long as a pod uses it
		volume.held = []sdk.ApplyOption{sdk.HoldBack(sdk.Invalid("ClaimTerminating", "PersistentVolumeClaim %s is being deleted, "+
			"and its data are lost when the pods of the app end, so they are not replaced: copy the data, and name another "+
			"claim in a new MyApp", claim.Name))}
	}
	return volume, nil
}

// isRetainedFor returns a function that reports whether a MyApp of this name retained the claim. The marks are those that
// this operator writes: the owner annotation, and its entry in the managed fields. Labels alone are no mark, because charts
// and users set them.
func isRetainedFor(app *v1.MyApp) func(client.Object) bool {
	return func(claim client.Object) bool {
		return claim.GetLabels()[sdk.ManagedByLabel] == "myapp" &&
			claim.GetAnnotations()[apply.OwnerAnnotation] == client.ObjectKeyFromObject(app).String() &&
			apply.OwnedFields(claim, "myapp").String() != ""
	}
}
