package smallest_test

import (
	"bytes"
	"os"
	"testing"
)

// A program without external resources does not contain their engine. The names of functions are in each program, also in
// one without a symbol table; the name is put together here, so that this file does not contain it.
func TestEngineOfExternalResourcesIsNotLinked(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"reconciler.(*Recon" + "ciler).Reconcile": true, "remote.(*Eng" + "ine).": false} {
		if linked := bytes.Contains(program, []byte("homeostat/sdk/internal/"+name)); linked != want {
			t.Errorf("%s is linked: %v, want %v", name, linked, want)
		}
	}
}
