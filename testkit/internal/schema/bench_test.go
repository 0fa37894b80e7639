package schema_test

import "testing"

func BenchmarkMutations(b *testing.B) {
	s, obj := database(b), sample(b)
	for b.Loop() {
		b.ReportMetric(float64(len(mutations(b, s, obj))), "changes")
	}
}
