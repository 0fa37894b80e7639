package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const sumsFile = "SHA256SUMS"

// writeSums writes the checksums of all files in a folder, as sha256sum does.
func writeSums(folder string) error {
	text, err := checksums(folder)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, sumsFile), text, 0o644); err != nil {
		return fmt.Errorf("writing the checksums: %w", err)
	}
	return nil
}

// checkSums rejects a folder that differs from the checksums of writeSums.
func checkSums(folder string) error {
	want, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return fmt.Errorf("%s is not what a rehearsal left: run make release-dry-run first: %w", folder, err)
	}
	got, err := checksums(folder)
	if err != nil {
		return err
	}
	if !bytes.Equal(want, got) {
		return fmt.Errorf("%s is not as the rehearsal left it (%s): run make release-dry-run again",
			folder, strings.Join(differing(want, got), ", "))
	}
	return nil
}

// differing returns the names in lines that only one of two lists has.
func differing(a, b []byte) (names []string) {
	times := map[string]int{}
	for line := range strings.Lines(string(a) + string(b)) {
		times[line]++
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(a) + string(b)) {
		if _, name, _ := strings.Cut(strings.TrimSpace(line), "  "); times[line] == 1 && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func checksums(folder string) ([]byte, error) {
	var text bytes.Buffer
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(folder, file)
		if err != nil || relative == sumsFile {
			return err
		}
		data, err := os.ReadFile(file)
		sum := sha256.Sum256(data)
		fmt.Fprintf(&text, "%s  %s\n", hex.EncodeToString(sum[:]), filepath.ToSlash(relative))
		return err
	})
	if err == nil && text.Len() == 0 {
		err = errors.New("there is no file")
	}
	if err != nil {
		return nil, fmt.Errorf("computing the checksums of %s: %w", folder, err)
	}
	return text.Bytes(), nil
}
