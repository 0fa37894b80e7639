// Package conversion converts custom resources between the versions of their kind.
//
// A [Kind] is a value. It names the hub, which is the version that all others are converted to and from, and describes each
// other version, a spoke, by lenses:
//
//	var Team = &conversion.Kind{
//		GroupKind: schema.GroupKind{Group: "example.com", Kind: "Team"},
//		Hub:       "v1beta1",
//		Versions: []conversion.Version{
//			{Name: "v1beta1", Type: &v1beta1.Team{}},
//			{Name: "v1alpha1", Type: &v1alpha1.Team{}, Lenses: []conversion.Lens{
//				conversion.Rename("spec.mail", "spec.contact.mail"),
//				conversion.SpokeOnly("spec.nickname"),
//				conversion.HubOnly("spec.plan", "free"),
//			}},
//		},
//	}
//
// A lens works on the JSON content and converts in both directions. Fields without a lens are equal in both versions.
// Lenses of one version are applied at once, not one after another: none reads what another one has written. [Functions]
// is for what lenses cannot express.
//
// [Handler] serves the conversion webhook of kinds. Package conversiontest tests a Kind with generated objects. Package
// migration rewrites stored objects when the storage version has changed.
//
// # What a version cannot express
//
// A conversion loses nothing. What the other version cannot express is kept in the annotation [Annotation] of the result:
// each value with its path, and a digest of what the other version shows instead. The conversion back restores such a value
// if the other version still shows the same, and drops it if a client has changed that. A restored value never changes what
// the other version shows. So a client of one version can read, modify and write an object without an effect on what only
// another version has. The annotation is there only while it is needed. No other metadata changes.
//
// A list of objects is kept and dropped as a whole, as an atomic list is, unless [Version.ListKeys] names the keys of its
// items.
//
// # Failures
//
// The API server cannot read an object whose conversion fails, and no list that contains it. So a conversion fails only
// if a function of a lens does, or if a value is not in a table of [Values]. The annotation is input of any client that
// may write the object: what is not readable in it is ignored, and with [Version.Type] a value of the wrong type is not
// restored. The API server does not validate restored values by the schema of the other version.
package conversion
