// Release builds kvreplay for every platform into a folder: archives with the program, manual pages
// and completions, a wheel of the Python package with the program, a bill of materials (SBOM), and
// checksums. Equal commits give equal bytes.
//
//	go run ./scripts/release -out dist
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// tags are those of make build, TAGS in the Makefile.
	tags = "minimal,nethttpomithttp2,tinygo"
	cli  = "github.com/kvreplay/kvreplay/cmd/cli"
	// sbomTool writes the bill of materials in the format CycloneDX.
	sbomTool = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
)

// host is the file of the build that prints manual pages and completions.
const host = "host"

// platforms are those of the releases.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	var r release
	targets := flag.String("platforms", platforms, "build for these `OS/ARCH`, separated by commas")
	flag.StringVar(&r.out, "out", "dist", "write to this `FOLDER`")
	flag.BoolVar(&r.sbom, "sbom", true, "write a bill of materials for each platform (needs the module proxy)")
	wheels := flag.Bool("wheels", true, "write a wheel of the Python package for each platform (needs Python with pip, and PyPI)")
	flag.Parse()
	if *wheels {
		r.pip = []string{"python3", "-m", "pip"}
	}
	if err := r.run(strings.Split(*targets, ",")); err != nil {
		log.Fatal(err)
	}
}

// release holds the facts that all archives share.
type release struct {
	out, version, commit string
	date                 time.Time
	sbom                 bool
	docs                 []entry  // files of every archive besides the program
	pip                  []string // the command that builds wheels, nil for none
	python               []entry  // files of every wheel besides the program
	pythonVersion        string   // the version of wheels
}

// entry is a file of an archive.
type entry struct {
	name string
	text []byte
	mode fs.FileMode
}

func (r *release) run(targets []string) (err error) {
	if err := r.describe(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "kvreplay-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := r.document(work); err != nil {
		return err
	}
	if r.pip != nil {
		if r.python, r.pythonVersion, err = r.purePackage(work); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var made []string
	for _, target := range targets {
		goos, goarch, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("platform %q: expected OS/ARCH, as in linux/amd64", target)
		}
		names, err := r.archive(work, goos, goarch)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		made = append(made, names...)
	}
	return r.checksums(made)
}

func (r *release) describe() error {
	var facts [3]string
	for i, args := range [][]string{{"describe", "--tags", "--always", "--dirty"}, {"rev-parse", "HEAD"}, {"log", "-1", "--format=%ct"}} {
		text, err := exec.Command("git", args...).Output()
		if err != nil {
			return fmt.Errorf("git %s: %w: run this in a clone with git", strings.Join(args, " "), err)
		}
		facts[i] = strings.TrimSpace(string(text))
	}
	seconds, err := strconv.ParseInt(facts[2], 10, 64)
	r.version, r.commit, r.date = facts[0], facts[1], time.Unix(seconds, 0).UTC()
	return err
}

// build compiles the program for a platform. As in make build, its module file takes the fonts of
// scripts/release/fonts.
func (r *release) build(path, goos, goarch, tags string) error {
	for kind, more := range map[string]string{".mod": "require.mod", ".sum": "go.sum"} {
		text, err := os.ReadFile("go" + kind)
		if err != nil {
			return err
		}
		fonts, err := os.ReadFile("scripts/release/fonts/" + more)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path+kind, append(text, fonts...), 0o644); err != nil {
			return err
		}
	}
	flags := fmt.Sprintf("-s -w -buildid= -X %s.version=%s -X %s.commit=%s -X %s.built=%s", cli, r.version, cli, r.commit, cli, r.date.Format(time.RFC3339))
	c := exec.Command("go", "build", "-modfile", path+".mod", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags", flags, "-o", path, "./cmd/kvreplay")
	c.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	c.Stderr = os.Stderr
	return c.Run()
}

// document collects the texts of every archive. A build for this machine prints the manual pages, which
// need a program without tags, and completions.
func (r *release) document(work string) error {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		r.docs = append(r.docs, entry{name, text, 0o644})
	}
	program := filepath.Join(work, host)
	if err := r.build(program, runtime.GOOS, runtime.GOARCH, ""); err != nil {
		return err
	}
	pages := filepath.Join(work, "man")
	if text, err := exec.Command(program, "man", "-o", pages).CombinedOutput(); err != nil {
		return fmt.Errorf("manual pages: %w: %s", err, text)
	}
	files, err := os.ReadDir(pages)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(pages, f.Name()))
		if err != nil {
			return err
		}
		r.docs = append(r.docs, entry{"man/" + f.Name(), text, 0o644})
	}
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		text, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion of %s: %w", shell, err)
		}
		r.docs = append(r.docs, entry{"completions/kvreplay." + shell, text, 0o644})
	}
	return nil
}

// archive writes the archive of a platform, and its bill of materials. It returns their names.
func (r *release) archive(work, goos, goarch string) (made []string, err error) {
	name := fmt.Sprintf("kvreplay_%s_%s_%s", strings.TrimPrefix(r.version, "v"), goos, goarch)
	program, own := filepath.Join(work, name), "kvreplay"
	if goos == "windows" {
		own = "kvreplay.exe"
	}
	if err := r.build(program, goos, goarch, tags); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	entries := append([]entry{{own, text, 0o755}}, r.docs...)
	for i := range entries {
		entries[i].name = name + "/" + entries[i].name
	}
	packed, ext := r.tar, ".tar.gz"
	if goos == "windows" {
		packed, ext = r.zip, ".zip"
	}
	var out bytes.Buffer
	if err := packed(&out, entries); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(r.out, name+ext), out.Bytes(), 0o644); err != nil {
		return nil, err
	}
	made = []string{name + ext}
	if r.pip != nil {
		wheel, err := r.wheel(goos+"/"+goarch, own, text)
		if err != nil {
			return nil, fmt.Errorf("wheel: %w", err)
		}
		made = append(made, wheel)
	}
	if r.sbom {
		c := exec.Command("go", "run", sbomTool, "bin", "-json", "-noserial", "-notimestamp", "-version", r.version, "-output", filepath.Join(r.out, name+".cdx.json"), program)
		if text, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("bill of materials: %w: %s", err, text)
		}
		made = append(made, name+".cdx.json")
	}
	return made, nil
}

// tar packs entries with the date of the commit.
func (r *release) tar(w io.Writer, entries []entry) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range entries {
		if err := t.WriteHeader(&tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(e.text)), ModTime: r.date, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := t.Write(e.text); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// zip packs entries with the date of the commit.
func (r *release) zip(w io.Writer, entries []entry) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.date}
		h.SetMode(e.mode)
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.text); err != nil {
			return err
		}
	}
	return z.Close()
}

// checksums writes SHA256SUMS, which `sha256sum --check` reads.
func (r *release) checksums(names []string) error {
	slices.Sort(names)
	var lines strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(text), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(lines.String()), 0o644)
}
