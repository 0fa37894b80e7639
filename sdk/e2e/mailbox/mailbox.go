// Package mailbox contains an operator with webhooks: an example of package webhook, with its manifests.
package mailbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/webhook"
)

// Operator applies a ConfigMap for each mailbox.
var Operator = &sdk.Operator[*Mailbox]{
	Name:        "mailbox",
	AddToScheme: AddToScheme,
	Owns:        []client.Object{&corev1.ConfigMap{}},
	Reconcile: func(_ context.Context, p *sdk.Pass[*Mailbox]) error {
		sdk.Apply(p, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name},
			Data:       map[string]string{"quota": strconv.Itoa(int(p.Object.Spec.QuotaMiB))},
		})
		return nil
	},
	// Its finalizer is an update of a mailbox, which the webhooks see.
	Finalize: func(context.Context, *sdk.Pass[*Mailbox]) error { return nil },
	Resync:   -1,
}

// +kubebuilder:webhookconfiguration:mutating=true,name=mailbox-webhook
// +kubebuilder:webhookconfiguration:mutating=false,name=mailbox-webhook
// +kubebuilder:webhook:path=/mutate-mail-homeostat-dev-v1-mailbox,mutating=true,failurePolicy=fail,sideEffects=None,groups=mail.homeostat.dev,resources=mailboxes,verbs=create;update,versions=v1,name=default.mailboxes.mail.homeostat.dev,admissionReviewVersions=v1,serviceName=mailbox-webhook,serviceNamespace=mailbox-operator,timeoutSeconds=5
// +kubebuilder:webhook:path=/validate-mail-homeostat-dev-v1-mailbox,mutating=false,failurePolicy=fail,sideEffects=None,groups=mail.homeostat.dev,resources=mailboxes,verbs=create;update;delete,versions=v1,name=validate.mailboxes.mail.homeostat.dev,admissionReviewVersions=v1,serviceName=mailbox-webhook,serviceNamespace=mailbox-operator,timeoutSeconds=5

// WithWebhooks is the operator with its webhooks.
var WithWebhooks = &webhook.Operator[*Mailbox]{
	Operator:       Operator,
	Validate:       validate,
	ValidateDelete: validateDelete,
	Default:        setDefaults,
}

// defaultQuota is the quota of a mailbox without one, in MiB.
const defaultQuota = 100

func setDefaults(_ context.Context, m *Mailbox) error {
	if m.Spec.QuotaMiB == 0 {
		m.Spec.QuotaMiB = defaultQuota
	}
	return nil
}

func validate(_ context.Context, old, m *Mailbox) (admission.Warnings, error) {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if !strings.Contains(m.Spec.Address, "@") {
		errs = append(errs, field.Invalid(spec.Child("address"), m.Spec.Address, "must be an address, such as a@example.com"))
	}
	if old != nil && old.Spec.Address != m.Spec.Address {
		errs = append(errs, field.Forbidden(spec.Child("address"), "cannot change: create another mailbox"))
	}
	var warnings admission.Warnings
	if old != nil && m.Spec.QuotaMiB < old.Spec.QuotaMiB {
		warnings = append(warnings, "spec.quotaMiB: messages over the quota stay")
	}
	return warnings, errs.ToAggregate()
}

// KeepAnnotation protects a mailbox from deletion.
const KeepAnnotation = "mail.homeostat.dev/keep"

func validateDelete(_ context.Context, m *Mailbox) (admission.Warnings, error) {
	if m.Annotations[KeepAnnotation] == "" {
		return nil, nil
	}
	return nil, fmt.Errorf("mailbox %s is kept: remove the annotation %s first", m.Name, KeepAnnotation)
}

// Convert converts mailboxes between v1 and v1beta1.
func Convert(out http.ResponseWriter, req *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(out, "no ConversionReview", http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{
		UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess},
	}
	for _, raw := range review.Request.Objects {
		converted, err := convert(raw.Raw, review.Request.DesiredAPIVersion)
		if err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			response.ConvertedObjects = nil
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: converted})
	}
	review.Request = nil
	review.Response = response
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) //nolint:errchkjson // it fails if the API server is gone
}

// convert renames the field of the quota.
func convert(raw []byte, version string) (*unstructured.Unstructured, error) {
	m := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("decoding a mailbox: %w", err)
	}
	from, to := "quota", "quotaMiB"
	if version != GroupVersion.String() {
		from, to = to, from
	}
	m.SetAPIVersion(version)
	quota, found, err := unstructured.NestedInt64(m.Object, "spec", from)
	if err != nil || !found {
		return m, err
	}
	unstructured.RemoveNestedField(m.Object, "spec", from)
	return m, unstructured.SetNestedField(m.Object, quota, "spec", to)
}
