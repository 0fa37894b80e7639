//go:build linux

package hub

import (
	"os/exec"
	"strings"
	"testing"
)

func TestPacketFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults packetFaults
		want   []string
	}{
		"none": {packetFaults{}, nil},
		"partition": {packetFaults{from: []int{1, 2}}, []string{
			"ip saddr { 10.88.1.2, 10.244.1.0/24 } drop", "ip saddr { 10.88.1.3, 10.244.2.0/24 } drop",
		}},
		"loss of some": {packetFaults{percent: 30}, []string{
			`iifname "eth0" numgen random mod 100 < 30 drop`, `oifname "eth0" numgen random mod 100 < 30 drop`,
		}},
		"loss of all": {packetFaults{percent: 100}, []string{`iifname "eth0" drop`, `oifname "eth0" drop`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := test.faults.rules()
			if n := strings.Count(rules, " drop\n"); n != len(test.want) {
				t.Errorf("%d rules drop packets, want %d:\n%s", n, len(test.want), rules)
			}
			for _, want := range test.want {
				if !strings.Contains(rules, want) {
					t.Errorf("%q is missing:\n%s", want, rules)
				}
			}
			checkSyntax(t, rules)
		})
	}
}

// checkSyntax lets nft check rules, where it can run.
func checkSyntax(t *testing.T, rules string) {
	t.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Log("the syntax is not checked: nft is not installed")
		return
	}
	cmd := exec.CommandContext(t.Context(), nft, "--check", "--file", "-")
	cmd.Stdin = strings.NewReader(rules)
	switch out, err := cmd.CombinedOutput(); {
	case err == nil:
	case strings.Contains(string(out), "Operation not permitted"):
		t.Log("the syntax is not checked: nft needs root")
	default:
		t.Errorf("nft rejects the rules: %v\n%s\n%s", err, out, rules)
	}
}
