package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pythonPackage is the folder of the Python package.
const pythonPackage = "scripts/python"

// wheelTags are the platforms of wheels. The programs for Linux are static, so they run with any C
// library. Go's programs need macOS 12.
var wheelTags = map[string]string{
	"linux/amd64":   "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
	"linux/arm64":   "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
	"darwin/amd64":  "macosx_12_0_x86_64",
	"darwin/arm64":  "macosx_12_0_arm64",
	"windows/amd64": "win_amd64",
	"windows/arm64": "win_arm64",
}

// describedVersion matches the output of git describe for a tag, or for a commit after it.
var describedVersion = regexp.MustCompile(`^v?(\d+(?:\.\d+)*)(?:-(\d+)-g([0-9a-f]+))?$`)

// wheelVersion returns a version of git describe in the spelling of Python (PEP 440). Without a tag
// it is version 0 with the commit.
func wheelVersion(described string) string {
	clean, dirty := strings.CutSuffix(described, "-dirty")
	version, local := "0", clean
	if m := describedVersion.FindStringSubmatch(clean); m != nil && strings.Contains(clean, ".") {
		version, local = m[1], m[3]
		if m[2] != "" {
			version += ".post" + m[2]
		}
	}
	if dirty {
		local = strings.TrimPrefix(local+".dirty", ".")
	}
	if local != "" {
		version += "+" + local
	}
	return version
}

// versionLine is the line of pyproject.toml that states the version.
var versionLine = regexp.MustCompile(`(?m)^version = ".*"$`)

// purePackage builds the wheel without a program by pip, and returns its files and version.
func (r *release) purePackage(work string) (files []entry, version string, err error) {
	version = wheelVersion(r.version)
	source := filepath.Join(work, "python")
	if err := os.CopyFS(filepath.Join(source, "kvreplay"), os.DirFS(filepath.Join(pythonPackage, "kvreplay"))); err != nil {
		return nil, "", err
	}
	project, err := os.ReadFile(filepath.Join(pythonPackage, "pyproject.toml"))
	if err != nil {
		return nil, "", err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, "", err
	}
	project = versionLine.ReplaceAll(project, []byte(`version = "`+version+`"`))
	for name, text := range map[string][]byte{"pyproject.toml": project, "LICENSE": license} {
		if err := os.WriteFile(filepath.Join(source, name), text, 0o644); err != nil {
			return nil, "", err
		}
	}
	built := filepath.Join(work, "wheels")
	args := append(slices.Clone(r.pip), "wheel", "--quiet", "--no-deps", "--wheel-dir", built, source)
	if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("%s: %w: %s: install Python 3.11 or newer with pip, or leave out wheels by -wheels=false", strings.Join(args, " "), err, text)
	}
	found, err := filepath.Glob(filepath.Join(built, "*.whl"))
	if err != nil || len(found) != 1 {
		return nil, "", fmt.Errorf("pip made %d wheels, expected 1: %w", len(found), err)
	}
	z, err := zip.OpenReader(found[0])
	if err != nil {
		return nil, "", err
	}
	defer z.Close()
	for _, f := range z.File {
		if strings.Contains(f.Name, "__pycache__") || strings.HasSuffix(f.Name, "/RECORD") || strings.HasSuffix(f.Name, "/WHEEL") {
			continue // those of the wheel with a program differ
		}
		content, err := f.Open()
		if err != nil {
			return nil, "", err
		}
		text, err := io.ReadAll(content)
		content.Close()
		if err != nil {
			return nil, "", err
		}
		files = append(files, entry{f.Name, text, 0o644})
	}
	return files, version, nil
}

// wheel writes the wheel of a platform and returns its name. pip installs the program next to
// Python's own.
func (r *release) wheel(target, own string, program []byte) (name string, err error) {
	tag, ok := wheelTags[target]
	if !ok {
		return "", fmt.Errorf("no tag of wheels for it: add it to wheelTags")
	}
	base := "kvreplay-" + r.pythonVersion
	info := "Wheel-Version: 1.0\nGenerator: kvreplay release\nRoot-Is-Purelib: false\n"
	for platform := range strings.SplitSeq(tag, ".") {
		info += "Tag: py3-none-" + platform + "\n"
	}
	files := append(slices.Clone(r.python), entry{base + ".data/scripts/" + own, program, 0o755}, entry{base + ".dist-info/WHEEL", []byte(info), 0o644})
	slices.SortFunc(files, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.text)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.text))
	}
	list := base + ".dist-info/RECORD"
	files = append(files, entry{list, []byte(record.String() + list + ",,\n"), 0o644})
	var out bytes.Buffer
	if err := r.zip(&out, files); err != nil {
		return "", err
	}
	name = base + "-py3-none-" + tag + ".whl"
	return name, os.WriteFile(filepath.Join(r.out, name), out.Bytes(), 0o644)
}
