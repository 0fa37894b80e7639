package reconciler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// immutable decides what to do about a change that was rejected as invalid. The rejection alone does not distinguish an
// immutable field from an invalid value, and deleting a working child because of an invalid value would be a disaster. A
// dry-run creation answers whether the API server would accept the child as a new object.
func (e *Reconciler) immutable(
	ctx context.Context, p *desired.Pass, s *desired.Child, intent *apply.Intent, rejection error,
) (bool, error) {
	fields := retry.InvalidFields(rejection)
	if len(fields) == 0 {
		return false, e.rejected(p, s, intent, rejection)
	}
	sent, err := intent.Payload()
	if err != nil {
		return false, err
	}
	dryRun := &unstructured.Unstructured{Object: sent}
	dryRun.SetName("")
	dryRun.SetGenerateName(strings.TrimRight(s.Key.Name[:min(len(s.Key.Name), 40)], "-.") + "-")
	if err := e.client.Create(ctx, dryRun, client.DryRunAll); err != nil {
		return false, retry.WithQuotaHint(e.rejected(p, s, intent, retry.ReplaceGeneratedName(err, s.Key.Name)))
	}
	if s.Immutable == desired.Stall {
		slices.Sort(fields)
		message := fmt.Sprintf("%s cannot be changed in place: the API server does not allow a change of %s",
			s, strings.Join(slices.Compact(fields), ", "))
		report := &retry.ReconcileError{Class: retry.ClassRejected, Reason: "ImmutableField", Message: message}
		return false, p.Retries.RecordRejection(s.RetryKey(intent), report, time.Now())
	}
	propagation := metav1.DeletePropagationBackground
	if s.Immutable == desired.RecreateOrphan {
		propagation = metav1.DeletePropagationOrphan
	}
	deleted, err := e.delete(ctx, s.ID(), s.Live, propagation)
	if err != nil {
		return false, err
	}
	s.Terminating = true
	return deleted, nil
}
