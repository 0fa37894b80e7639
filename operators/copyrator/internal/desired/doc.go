// Package desired builds the copies of a source: their content, or a digest of it, and their metadata.
//
// It is pure: it sends no request. Package internal/policy decides which copies should exist.
package desired
