// Package schema knows what objects of a custom resource may look like, and lists the ways to change one a little.
//
// It reads the structural schema of a CustomResourceDefinition. Given a valid object it says every interesting single
// change of it, property by property: a number at its bounds, an enum's other members, a list one item longer, an
// optional object that appears. Where it recognizes a part of the Kubernetes API, such as resources, probes,
// tolerations, a cron schedule or a number of replicas, it proposes what operators are known to stumble over, for
// example the same quantity in another notation.
//
// Everything here is a pure function: no API server, no clock, no randomness, no order of maps. Two machines get the
// same changes in the same order.
//
// What it proposes fits the schema: types, bounds, patterns, formats, enums, lists that are maps or sets. It does not
// evaluate CEL rules, and it knows nothing of webhooks and quotas; package validity asks those who do.
//
// Limits:
//
//   - The status, apiVersion, kind and the metadata other than labels and annotations are never changed.
//   - Of a list's items, and of a map's entries, the first 3 are changed one by one.
//   - Numbers of things, such as replicas, never exceed 10, and lists do not grow beyond 8 items, whatever the schema
//     allows: an operator would create as many objects.
//   - Strings never exceed 8192 characters.
//   - A string has to match all patterns at once, and is derived from the first one. Where that does not succeed, the
//     property is only changed to its default and to the members of its enum.
//   - Values under oneOf, anyOf and not are derived from the first alternative that asks for the property; what does
//     not fit the others is dropped.
package schema
