package conversion_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/sdk/conversion/conversiontest"
)

// teamAlpha2 is a version that is converted by functions. Its field seats does not exist in the hub.
type teamAlpha2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Mail  string `json:"mail,omitempty"`
		Phone string `json:"phone,omitempty"`
		Plan  string `json:"plan,omitempty"`
		Seats int    `json:"seats,omitempty"`
	} `json:"spec"`
}

// teamBeta1 has only some of the fields of the hub.
type teamBeta1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Contact *contact `json:"contact,omitempty"`
		Plan    string   `json:"plan"`
		Quota   int      `json:"quota,omitempty"`
	} `json:"spec"`
}

type contact struct {
	Mail  string `json:"mail,omitempty"`
	Phone string `json:"phone,omitempty"`
}

func alpha2ToHub(from *teamAlpha2, to *teamBeta1) error {
	if from.Spec.Mail != "" || from.Spec.Phone != "" {
		to.Spec.Contact = &contact{from.Spec.Mail, from.Spec.Phone}
	}
	if to.Spec.Plan = from.Spec.Plan; to.Spec.Plan == "" {
		to.Spec.Plan = "free"
	}
	return nil
}

func hubToAlpha2(from *teamBeta1, to *teamAlpha2) error {
	if c := from.Spec.Contact; c != nil {
		to.Spec.Mail = c.Mail
		to.Spec.Phone = c.Phone
	}
	to.Spec.Plan = from.Spec.Plan
	return nil
}

func team() *conversion.Kind {
	return &conversion.Kind{
		GroupKind: schema.GroupKind{Group: "example.com", Kind: "Team"},
		Hub:       "v1beta1",
		Versions: []conversion.Version{
			{Name: "v1beta1", Type: &teamBeta1{}, ListKeys: map[string][]string{"spec.people": {"login"}}},
			{Name: "v1alpha2", Type: &teamAlpha2{}, Lenses: []conversion.Lens{conversion.Functions(alpha2ToHub, hubToAlpha2)}},
			{Name: "v1alpha1", ListKeys: map[string][]string{"spec.members": {"name"}}, Lenses: []conversion.Lens{
				conversion.Rename("spec.mail", "spec.contact.mail"),
				conversion.HubOnly("spec.contact.phone"),
				conversion.Join([]string{"spec.size"}, "spec.sizeGi", parseSize, formatSize),
				conversion.Values("spec.tier", "spec.class",
					conversion.Pair{Spoke: "small", Hub: "s"}, conversion.Pair{Spoke: "big", Hub: "l"},
					conversion.Pair{Spoke: "big", Hub: "xl"}),
				conversion.SpokeOnly("spec.color"),
				conversion.HubOnly("spec.plan", "free"),
				conversion.HubOnly("spec.quota", 3),
				conversion.Split("spec.image", []string{"spec.image.repository", "spec.image.tag"}, splitImage, joinImage),
				conversion.Wrap("spec.owner", "spec.owners"),
				conversion.Join([]string{"spec.prefix", "spec.number"}, "spec.code", joinCode, splitCode),
				conversion.SpokeOnly("spec.limits.burst"),
				conversion.HubOnly("spec.limits.memory"),
				conversion.Each("spec.members", "spec.people",
					conversion.Rename("name", "login"),
					conversion.SpokeOnly("nick"),
					conversion.HubOnly("admin"),
					conversion.Values("role", "role",
						conversion.Pair{Spoke: "dev", Hub: "developer"}, conversion.Pair{Spoke: "ops", Hub: "operator"}),
				),
				conversion.Each("spec.groups", "spec.groups", conversion.Rename("size", "members")),
				conversion.Rename("status.phase", "status.state"),
				conversion.HubOnly("status.since"),
			}},
		},
	}
}

func parseSize(values []any) (int64, error) {
	text, _ := values[0].(string)
	factor := int64(1)
	if strings.HasSuffix(text, "Ti") {
		factor = 1024
	}
	n, err := strconv.ParseInt(strings.TrimRight(text, "GTi"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no size such as 10Gi", text)
	}
	return n * factor, nil
}

// formatSize is not the inverse of parseSize: 1Ti becomes 1024Gi. v1alpha1 has no numbers of more than four digits.
func formatSize(n int64) ([]any, error) {
	if n > 9999 {
		return []any{fmt.Sprintf("%dTi", max(n/1024, 1))}, nil
	}
	return []any{fmt.Sprintf("%dGi", n)}, nil
}

func splitImage(image string) ([]any, error) {
	repository, tag, ok := strings.Cut(image, ":")
	if !ok {
		return []any{repository, nil}, nil
	}
	return []any{repository, tag}, nil
}

func joinImage(parts []any) (string, error) {
	repository, _ := parts[0].(string)
	if tag, ok := parts[1].(string); ok && repository != "" {
		return repository + ":" + tag, nil
	}
	if repository == "" {
		return "unknown", nil
	}
	return repository, nil
}

func joinCode(parts []any) (string, error) {
	text := "-"
	if prefix, ok := parts[0].(string); ok {
		text = prefix + text
	}
	if n, ok := parts[1].(int64); ok {
		text += strconv.FormatInt(n, 10)
	}
	return text, nil
}

func splitCode(code string) ([]any, error) {
	prefix, number, ok := strings.Cut(code, "-")
	if !ok {
		return nil, errors.New("there is no hyphen in " + code)
	}
	parts := make([]any, 2)
	if prefix != "" {
		parts[0] = prefix
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		parts[1] = n
	}
	return parts, nil
}

func teamCRD(tb testing.TB) *apiextensionsv1.CustomResourceDefinition {
	crd, err := conversiontest.ReadCRD("testdata/teams.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	return crd
}

func tolerated() []conversiontest.Option {
	return []conversiontest.Option{
		conversiontest.MayKeep("v1alpha1", "spec.size"),                // 1Ti is shown as 1024Gi
		conversiontest.MayKeep("v1beta1", "spec.sizeGi", "spec.image"), // 10000 is shown as 9Ti; an image may lack a repository
		conversiontest.MayKeep("v1beta1", "spec.code"),                 // 07 is shown as 7
	}
}

func TestRoundTrip(t *testing.T) {
	conversiontest.RoundTrip(t, team(), teamCRD(t), 10_000, tolerated()...)
}

func FuzzRoundTrip(f *testing.F) {
	conversiontest.Fuzz(f, team(), teamCRD(f), tolerated()...)
}
