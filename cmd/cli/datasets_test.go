package cli_test

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/bundled"
	"github.com/kvreplay/kvreplay/datasets/catalogue"
	"github.com/kvreplay/kvreplay/datasets/offline"
	"github.com/kvreplay/kvreplay/datasets/ruler"
	"github.com/kvreplay/kvreplay/datasets/synthetic"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

const catalogueFile = "../../datasets/catalogue/catalogue.yaml"

// The catalogue has the sizes and digests of the bundled files. -update rewrites them.
func TestCatalogueBundled(t *testing.T) {
	for _, e := range catalogue.All() {
		if e.Bundled != "" {
			compareFiles(t, &e, filepath.Join("..", "..", e.Bundled))
		}
	}
}

// kvreplay has every command that makes an entry. Commands of entries without sources are run and
// make the files of the catalogue. -update rewrites it.
func TestCatalogueMakes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes every workload of the catalogue")
	}
	file, err := filepath.Abs(catalogueFile)
	fatal.If(t, err)
	for _, e := range catalogue.All() {
		t.Run(e.Name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			alone := len(e.Sources) == 0
			for _, command := range e.Make {
				args, err := words(command, "")
				switch {
				case err != nil:
					t.Fatalf("%s: %v", command, err)
				case args[0] == "curl" && strings.HasPrefix(args[len(args)-1], "https://"):
					alone = false
					continue
				case args[0] != "kvreplay":
					t.Fatalf("%s: expected a command of kvreplay, or curl", command)
				}
				if code, _, stderr := run(append(args[1:], "--help")...); code != 0 {
					t.Errorf("%s: %s", command, stderr)
				}
				if !alone || tooLarge(&e, args) {
					continue
				}
				if code, _, stderr := run(args[1:]...); code != 0 {
					t.Errorf("%s: %s", command, stderr)
				}
			}
			if alone {
				compareFilesIn(t, &e, ".", file)
			}
		})
	}
}

// tooLarge reports whether a command makes a file that takes long, according to the catalogue. Such
// commands run only with -update.
func tooLarge(e *catalogue.Entry, args []string) bool {
	return !*update && slices.ContainsFunc(e.Files, func(f catalogue.File) bool { return f.Name == args[len(args)-1] && f.Bytes > 8<<20 })
}

func compareFiles(t *testing.T, e *catalogue.Entry, folder string) {
	t.Helper()
	compareFilesIn(t, e, folder, catalogueFile)
}

// compareFilesIn compares the files of an entry with the catalogue, or rewrites the catalogue.
func compareFilesIn(t *testing.T, e *catalogue.Entry, folder, catalogueFile string) {
	t.Helper()
	for _, f := range e.Files {
		path := filepath.Join(folder, f.Name)
		if tooLarge(e, []string{f.Name}) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		sum := sha256.Sum256(text)
		got := catalogue.File{Name: f.Name, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
		if f.Digest != "" {
			v, err := trace.Validate(t.Context(), path, func(e *trace.Error) bool { t.Error(e); return true })
			if err != nil {
				t.Error(err)
			}
			got.Digest = v.Digest
		}
		if got != f && *update {
			rewriteCatalogue(t, catalogueFile, &got)
		} else if got != f {
			t.Errorf("%s is %+v, the catalogue says %+v; if that is meant, go test ./cmd/cli -run Catalogue -update", path, got, f)
		}
	}
}

// rewriteCatalogue sets the size and digests of a file in the YAML and changes nothing else.
func rewriteCatalogue(t *testing.T, path string, f *catalogue.File) {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	lines := regexp.MustCompile(`(- name: ` + regexp.QuoteMeta(f.Name) + `\n +bytes: ).*(\n +sha256: ).*((?:\n +digest: )?).*`)
	if len(lines.FindAll(text, -1)) != 1 {
		t.Fatalf("%s: no file %s with bytes, sha256 and digest in this order", path, f.Name)
	}
	digest := ""
	if f.Digest != "" {
		digest = fmt.Sprintf("%q", f.Digest)
	}
	text = lines.ReplaceAll(text, fmt.Appendf(nil, "${1}%d${2}%q${3}%s", f.Bytes, f.SHA256, digest))
	fatal.If(t, os.WriteFile(path, text, 0o644))
}

// The catalogue has exactly the tasks that have a generator.
func TestCatalogueIsComplete(t *testing.T) {
	var substitutes []string
	for _, task := range offline.Tasks() {
		substitutes = append(substitutes, task.Name)
	}
	presets := synthetic.Presets()
	for benchmark, want := range map[string][]string{"ruler": ruler.Names(), "offline": substitutes, "synthetic": presets} {
		var got []string
		for _, e := range catalogue.All() {
			if task, ok := strings.CutPrefix(e.Name, benchmark+"/"); ok {
				got = append(got, task)
			}
		}
		if benchmark == "synthetic" {
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the catalogue has %s's %v, there are %v", benchmark, got, want)
		}
	}
}

// list prints every entry in each format, and datasets without a subcommand does the same.
func TestDatasetsList(t *testing.T) {
	entries := catalogue.All()
	outputs := map[string]string{}
	for _, format := range catalogue.Formats {
		outputs[format], _ = kvreplay(t, 0, "datasets", "list", "--format", format)
		for _, e := range entries {
			if !strings.Contains(outputs[format], e.Name) {
				t.Errorf("%s: no %s", format, e.Name)
			}
		}
	}
	if alone, _ := kvreplay(t, 0, "datasets"); alone != outputs["table"] {
		t.Error("`kvreplay datasets` and `kvreplay datasets list` differ")
	}
	var decoded []catalogue.Entry
	if err := json.Unmarshal([]byte(outputs["json"]), &decoded); err != nil || len(decoded) != len(entries) {
		t.Errorf("%d entries of %d, %v", len(decoded), len(entries), err)
	}
	lines, err := csv.NewReader(strings.NewReader(outputs["csv"])).ReadAll()
	if err != nil || len(lines) < len(entries)+1 || !slices.Contains(lines[0], "origin") {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

func TestDatasetsDescribe(t *testing.T) {
	out, _ := kvreplay(t, 0, "datasets", "describe", "mooncake-fast25", "smollm2_multi_news_8k")
	for _, want := range []string{"Apache-2.0", "https://github.com/kvcache-ai/Mooncake", "3,029,533 bytes", "curl -LO https://", "kvreplay import SRC/", "digest sha256:166a1ff9"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _ = kvreplay(t, 0, "datasets", "describe", "--format", "json", "ruler/vt")
	var e catalogue.Entry
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.Name != "ruler/vt" || e.Kind != catalogue.Workload {
		t.Errorf("%s, %v", out, err)
	}
}

// verify reports each file that is missing, altered or rewritten.
func TestDatasetsVerify(t *testing.T) {
	folder := filepath.Join("..", "..", bundled.Folder)
	out, _ := kvreplay(t, 0, "datasets", "verify", "--dir", folder, "smollm2_multi_news_8k", "smollm2_niah_1k_sglang", "smollm2_niah_multikey_3_4k")
	if n := strings.Count(out, ": good: "); n != strings.Count(out, "\n") || n == 0 {
		t.Errorf("%s", out)
	}
	news, niah := content(t, filepath.Join(folder, "smollm2_multi_news_8k.parquet")), content(t, filepath.Join(folder, bundled.EmbeddedFile))
	damaged := t.TempDir()
	for name, text := range map[string]string{"smollm2_multi_news_8k.parquet": news[:3000] + "x" + news[3001:], bundled.EmbeddedFile: niah} {
		fatal.If(t, os.WriteFile(filepath.Join(damaged, name), []byte(text), 0o644))
	}
	code, out, stderr := run("datasets", "verify", "--dir", damaged)
	for _, want := range []string{
		"smollm2_multi_news_8k.parquet: different: 763653 bytes with SHA-256",
		bundled.EmbeddedFile + ": good: ",
		"smollm2_niah_multikey_3_4k.parquet: missing: no such file. ",
		"git checkout -- ", "kvreplay datasets describe smollm2_multi_news_8k",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code != 1 || !strings.Contains(stderr, "files are missing or differ from the catalogue") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, out, _ := run("datasets", "verify", "--format", "json", "--dir", damaged, "smollm2_niah_1k_sglang"); code != 0 || !strings.Contains(out, `"state":"good"`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// A folder of bundled traces, or a checkout, is checked for missing files.
func TestDatasetsVerifyFolders(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, filepath.FromSlash(bundled.Folder))
	fatal.If(t, os.CopyFS(folder, os.DirFS(filepath.Join("..", "..", bundled.Folder))))
	if out, _ := kvreplay(t, 0, "datasets", "verify", "--dir", folder); strings.Count(out, ": good: ") != 3 || strings.Count(out, "\n") != 3 {
		t.Errorf("%s", out)
	}
	if out, _ := kvreplay(t, 0, "datasets", "verify", "--dir", root, "smollm2_niah_1k_sglang"); !strings.Contains(out, ": good: ") {
		t.Errorf("%s", out)
	}
	says(t, 1, "has no bundled trace", "datasets", "verify", "--dir", t.TempDir())
}

// A user who has only the binary can extract a trace to replay.
func TestDatasetsExtract(t *testing.T) {
	t.Chdir(t.TempDir())
	kvreplay(t, 0, "datasets", "extract", "smollm2_niah_1k_sglang", "-o", bundled.EmbeddedFile)
	kvreplay(t, 0, "datasets", "verify", "smollm2_niah_1k_sglang", "--dir", ".")
	out, _ := kvreplay(t, 0, "replay", bundled.EmbeddedFile, "--policy", "lru", "--capacity", "2x")
	if !strings.Contains(out, "lru") {
		t.Errorf("%s", out)
	}
}

// Impossible requests state the reason and leave no file.
func TestDatasetsCatalogueRefused(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"no folder datasets/bundled here":                                     {1, []string{"verify"}},
		"stat nowhere: no such file":                                          {1, []string{"verify", "--dir", "nowhere"}},
		"did you mean smollm2_niah_1k_sglang":                                 {2, []string{"verify", "smollm2_niah_1k_sglan"}},
		"did you mean ruler/vt":                                               {2, []string{"describe", "ruler/vx"}},
		"longbench has no SHA-256":                                            {2, []string{"verify", "longbench"}},
		"expected table, json, csv or markdown":                               {2, []string{"list", "--format", "xml"}},
		"expected text or json":                                               {2, []string{"describe", "ruler/vt", "--format", "csv"}},
		"does not contain smollm2_multi_news_8k, only smollm2_niah_1k_sglang": {2, []string{"extract", "smollm2_multi_news_8k", "-o", "t.parquet"}},
		"output missing":                                                      {2, []string{"extract", "smollm2_niah_1k_sglang"}},
		"did you mean smollm2_multi_news_8k":                                  {2, []string{"extract", "smollm2_multi_news", "-o", "t.parquet"}},
		"extract: ":                                                           {1, []string{"extract", "smollm2_niah_1k_sglang", "-o", "none/t.parquet"}},
		"unknown command \"lst\"":                                             {2, []string{"lst"}},
		"1 of 1 files":                                                        {1, []string{"verify", "ruler/vt"}},
	} {
		says(t, c.code, want, append([]string{"datasets"}, c.args...)...)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// The card names its command, and its plots are next to it.
func TestDatasetsCard(t *testing.T) {
	out := filepath.Join(t.TempDir(), "CARD.md")
	trace := filepath.Join("..", "..", bundled.Folder, bundled.EmbeddedFile)
	_, stderr := kvreplay(t, 0, "datasets", "card", trace, "-o", out)
	text := content(t, out)
	for _, want := range []string{"kvreplay datasets card " + filepath.ToSlash(trace) + " -o " + filepath.ToSlash(out), "smollm2_niah_1k_sglang", "](card/lru-capacity.svg)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the card", want)
		}
	}
	if !strings.HasPrefix(content(t, filepath.Join(filepath.Dir(out), "card", "lru-capacity.svg")), "<svg") || !strings.Contains(stderr, "wrote "+out) {
		t.Errorf("no plot, or not said where: %s", stderr)
	}
}

// Impossible requests state the reason and leave no file.
func TestDatasetsCardRefused(t *testing.T) {
	trace, err := filepath.Abs(filepath.Join("..", "..", bundled.Folder, bundled.EmbeddedFile))
	fatal.If(t, err)
	folder := t.TempDir()
	t.Chdir(folder)
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"trace or folder of traces":               {2, []string{"-o", "CARD.md"}},
		"output missing: name it with -o CARD.md": {2, []string{trace}},
		"no *.parquet in folder .":                {1, []string{".", "-o", "CARD.md"}},
		"no such file":                            {1, []string{"nowhere.parquet", "-o", "CARD.md"}},
		"have the same file name":                 {1, []string{trace, trace, "-o", "CARD.md"}},
		folder + " is a folder, expected":         {2, []string{trace, "-o", folder}},
	} {
		says(t, c.code, want, append([]string{"datasets", "card"}, c.args...)...)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
