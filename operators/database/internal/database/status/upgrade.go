package status

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
)

// Upgrade returns the upgraded StatefulSet if its template may be rolled out now, and otherwise the other one, with an
// annotation that requests a turn. Both are of the same spec. A turn is not necessary if the change restarts no working
// member. usable reports whether a pod that starts with the template of want can start.
func (s *Server) Upgrade(db *v1.Database, want, upgraded *appsv1.StatefulSet, usable bool) *appsv1.StatefulSet {
	if desired.SamePods(want, upgraded) {
		return want
	}
	digest := desired.TemplateDigest(upgraded)
	_, working := s.count()
	broken := working == 0 && (!usable || slices.ContainsFunc(s.Pods, cannotRun))
	stopped := len(s.Pods) == 0 && s.Set.Status.Replicas == 0
	if broken || stopped || db.Spec.UpgradePolicy == v1.UpgradeOnDelete ||
		s.Set.Annotations[desired.TemplateTurnAnnotation] == digest {
		return upgraded
	}
	want.Annotations[desired.PendingTemplateAnnotation] = digest
	return want
}
