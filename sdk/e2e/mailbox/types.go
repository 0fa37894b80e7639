package mailbox

import v1 "github.com/homeostat-dev/homeostat/sdk/e2e/mailbox/api/v1"

// Mailbox is the custom resource in version v1. Its older version v1beta1 exists in the CustomResourceDefinition only.
type Mailbox = v1.Mailbox

// Spec is the desired state of a mailbox.
type Spec = v1.Spec

// GroupVersion is the API version of the kind.
var GroupVersion = v1.GroupVersion

// AddToScheme registers the kind.
var AddToScheme = v1.AddToScheme
