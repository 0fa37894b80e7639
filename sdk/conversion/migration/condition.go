package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (m *run) condition() *apiextensionsv1.CustomResourceDefinitionCondition {
	i := slices.IndexFunc(m.crd.Status.Conditions, isOurs)
	if i < 0 {
		return nil
	}
	return &m.crd.Status.Conditions[i]
}

func isOurs(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == ConditionType }

// generation is the end of each message about an unfinished migration. The generation changes with the storage version.
func (m *run) generation() string { return fmt.Sprintf("(generation %d)", m.crd.Generation) }

var startPattern = regexp.MustCompile(`since resourceVersion ([0-9]+) \(generation [0-9]+\)$`)

// recorded returns the resourceVersion at which an earlier process has started this migration, or "".
func (m *run) recorded() string {
	c := m.condition()
	if c == nil || c.Status != apiextensionsv1.ConditionFalse || !strings.HasSuffix(c.Message, m.generation()) {
		return ""
	}
	if match := startPattern.FindStringSubmatch(c.Message); match != nil {
		return match[1]
	}
	return ""
}

// progress reports the number of rewritten objects, and the first failures.
func (m *run) progress(ctx context.Context, reason string) error {
	message := fmt.Sprintf("%d of %d objects are rewritten in %s", m.done, m.total, m.storage)
	if n := len(m.failures); n > 0 {
		message += fmt.Sprintf("; %d failed: %s", n, strings.Join(m.failures[:min(n, maxReported)], "; "))
	}
	return m.report(ctx, reason, fmt.Sprintf("%s, since resourceVersion %s %s", message, m.start, m.generation()), nil)
}

// finish removes the old versions from the status, if it has not changed since this migration began.
func (m *run) finish(ctx context.Context) error {
	return m.report(ctx, ReasonMigrated, "all objects are stored in "+m.storage, []string{m.storage})
}

// report stores the condition, and the stored versions unless they are nil. A conflict means that the
// CustomResourceDefinition has changed.
func (m *run) report(ctx context.Context, reason, message string, stored []string) error {
	m.reported = time.Now()
	next := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: ConditionType, Status: apiextensionsv1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.Now(),
	}
	if reason == ReasonMigrated {
		next.Status = apiextensionsv1.ConditionTrue
	}
	if c := m.condition(); c != nil {
		if c.Status == next.Status && c.Reason == next.Reason && c.Message == next.Message && stored == nil {
			return nil
		}
		if c.Status == next.Status && reason != ReasonWaiting {
			next.LastTransitionTime = c.LastTransitionTime
		}
	}
	conditions := append(slices.DeleteFunc(slices.Clone(m.crd.Status.Conditions), isOurs), next)
	status := map[string]any{"conditions": conditions}
	if stored != nil {
		status["storedVersions"] = stored
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": m.crd.ResourceVersion, "uid": m.crd.UID}, "status": status,
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	result, err := m.metadata.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).
		Patch(ctx, m.crd.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return fmt.Errorf("storing the progress in the status of %s: %w", m.crd.Name, err)
	}
	m.crd.ResourceVersion = result.ResourceVersion
	m.crd.Status.Conditions = conditions
	return nil
}
