// Package schema reads the structural schema of a CustomResourceDefinition and generates small changes of its objects.
//
// For a valid object it lists every interesting change of a single property: a number at its bounds, the other members
// of an enum, a list with one more item, an optional object that is created. Where it recognizes a part of the
// Kubernetes API, such as resources, probes, tolerations, a cron schedule or a number of replicas, it proposes values
// that operators are known to mishandle, for example the same quantity in another notation.
//
// Every function is pure: no API server, no clock, no randomness, no map order. Two machines get the same changes in
// the same order.
//
// Proposed values fit the schema: types, bounds, patterns, formats, enums, lists that are maps or sets. CEL rules,
// webhooks and quotas are not evaluated here; package validity asks the API server.
//
// Limits:
//
//   - The status, apiVersion, kind and the metadata other than labels and annotations are never changed.
//   - Of a list's items, and of a map's entries, the first 3 are changed one by one.
//   - Numbers of objects, such as replicas, never exceed 10, and lists do not grow beyond 8 items, even if the schema
//     allows more, because an operator would create as many objects.
//   - Strings never exceed 8192 characters.
//   - A string has to match all patterns at once, and is derived from the first one. If that fails, the property is
//     only changed to its default and to the members of its enum.
//   - Values under oneOf, anyOf and not are derived from the first alternative that requires the property. Values that
//     do not fit the others are dropped.
package schema
