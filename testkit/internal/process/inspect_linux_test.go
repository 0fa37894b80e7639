package process

import (
	"os"
	"testing"
)

func TestEnding(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"7 (a (b) c) R 1 7 7 0 -1 4194560 0 0": false, // 0x400100
		"7 (a (b) c) R 1 7 7 0 -1 4194564 0 0": true,
		"7 (a":                                 false,
		"":                                     false,
	} {
		if got := isExiting(text); got != want {
			t.Errorf("%q is exiting: %v", text, got)
		}
	}
	for text, want := range map[string]bool{
		"Name:\ta\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000100\n": false,
		"Name:\ta\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n":                            true,
		"Name:\ta\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000102\n":                            true,
		"Name:\ta\nShdPnd:\t0000000000000002\n":                                                       false,
		"":                                                                                            false,
	} {
		if got := isKilled(text); got != want {
			t.Errorf("%q is killed: %v", text, got)
		}
	}
	if isEnding(os.Getpid()) {
		t.Error("this process is said to be ending")
	}
}
