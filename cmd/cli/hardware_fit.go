package cli

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/internal/bom"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/text"
	"github.com/kvreplay/kvreplay/replay/hardware"
	"github.com/kvreplay/kvreplay/replay/transfer"
	"github.com/kvreplay/kvreplay/replay/transfer/fit"
)

type curveFlags struct {
	from      []string
	inline    bool
	batch     bool
	translate bool
	link      string
	path      string
	direction string
	source    string
}

func (h *hardwareFlags) fit() command {
	var f curveFlags
	return command{
		use:   "fit POINTS.csv",
		short: "Fit a link's transfer curve, or the kernel model, to measured points",
		long: `Fit the curve of one transfer path to the measured points of a CSV file:
  seconds = launches·launch + blocks·descriptor + bytes / rate
The report has residuals, leave-one-out errors, and the constants that the points do not determine.
--format yaml prints the curve for a link's data file.
If the first column is operator, fit the kernel model and print its parameters and errors.`,
		details: `Constants that the points do not determine stay 0. The CSV file has a header with block_bytes, blocks and one of seconds, microseconds,
bytes_per_second and gigabytes_per_second. launches and series are optional, and each series is
fitted alone. Nelder-Mead searches the constants on the log errors, which count less beyond 10 %.
replay/kernel/README.md describes the columns of kernels. kvreplay time --kernels POINTS.csv prices
with them.`,
		example: "  kvreplay hardware fit points.csv\n  kvreplay hardware fit points.csv --from 28KiB --link pcie5-x16 --path kernel",
		args:    exactlyOne("file of points"),
		flags: func(fl *flagSet) {
			fl.StringSliceVar(&f.from, "from", nil, "fit other constants from these block `SIZES` on, as in 28KiB (default: none)")
			fl.StringVar(&f.link, "link", "", "count the packet headers of this `LINK` and keep to its bandwidth (default: none)")
			fl.enum(&f.path, "path", "call", "path of the points on that link: `call`, batch or kernel", hardware.PathNames...)
			fl.enum(&f.direction, "direction", "h2d", "direction of the points on that link: `h2d` (fetches) or d2h (write-backs)", transfer.HostToDevice.String(), transfer.DeviceToHost.String())
			fl.BoolVar(&f.batch, "batch", false, "fit also submit and ahead, the submission's constants, for points that are batches")
			fl.BoolVar(&f.inline, "inline", false, "let the submitting thread move blocks below the first --from (needs --batch)")
			fl.BoolVar(&f.translate, "translate", false, "fit also submit, the time to translate a block's address while bytes move, for points of a kernel")
			fl.StringVar(&f.source, "source", "mine", "write this `KEY` as the source with --format yaml")
			fl.goWith("link", "path", "direction")
			fl.goWith("batch", "inline")
			fl.format(&h.format, "", "table", "json", "yaml")
		},
		run: func(c *call) error {
			if c.changed("source") && h.format != "yaml" {
				return usagef("--source needs --format yaml")
			}
			return f.fitFile(c, h)
		},
	}
}

// form returns the form of the curve that the flags describe.
func (f *curveFlags) form(h *hardwareFlags) (fit.Form, error) {
	if f.batch && f.translate {
		return fit.Form{}, usagef("--batch is for batches of copies, --translate for kernels: choose one")
	}
	form := fit.Form{From: []float64{0}, Batch: f.batch, Translate: f.translate}
	for _, text := range f.from {
		size, err := parseSize(text)
		if err != nil || float64(size) <= form.From[len(form.From)-1] {
			return form, usagef("--from %q: expected ascending sizes, as in 28KiB", text)
		}
		form.From = append(form.From, float64(size))
	}
	if f.inline {
		form.Inline = []bool{true}
	}
	if f.link == "" {
		return form, nil
	}
	lib, err := h.load()
	if err != nil {
		return form, err
	}
	l, err := lib.Link(f.link)
	if err != nil {
		return form, errUsage{err}
	}
	direction := transfer.HostToDevice
	if f.direction == transfer.DeviceToHost.String() {
		direction = transfer.DeviceToHost
	}
	form.Packets = transfer.PacketsOf(l, direction, transfer.Mechanism(slices.Index(hardware.PathNames, f.path)))
	form.MaxRate = form.Packets.Ceiling(float64(l.Bandwidth.Value))
	return form, nil
}

// fittedSeries is a fitted curve as `hardware fit --format json` prints it.
type fittedSeries struct {
	Series    string         `json:"series"`
	Launch    float64        `json:"launch_seconds"`
	Submit    float64        `json:"submit_seconds"`
	Ahead     float64        `json:"ahead_descriptors"`
	Regimes   []fittedRegime `json:"regimes"`
	Untold    []string       `json:"untold"` // constants that the points cannot tell
	Points    []fittedPoint  `json:"points"`
	Worst     float64        `json:"worst_error"`
	WorstLeft *float64       `json:"worst_leave_one_out_error"` // nil if no point can be left out
}

type fittedRegime struct {
	From       float64 `json:"from_bytes"`
	Descriptor float64 `json:"descriptor_seconds"`
	Rate       float64 `json:"bytes_per_second"`
	Inline     bool    `json:"inline"`
}

type fittedPoint struct {
	Line     int      `json:"line"`
	Measured float64  `json:"measured_seconds"`
	Fitted   float64  `json:"fitted_seconds"`
	Error    float64  `json:"error"`
	LeftOut  *float64 `json:"leave_one_out_error"`
}

// fitFile reads the points and fits links or kernels.
func (f *curveFlags) fitFile(c *call, h *hardwareFlags) error {
	form, err := f.form(h)
	if err != nil {
		return err
	}
	data, err := files.Read(c.Context(), c.args[0])
	if err == nil {
		data, err = bom.Bytes(data)
	}
	if err != nil {
		return fmt.Errorf("points: %w", err)
	}
	if !isKernels(data) {
		return f.run(c, h.format, form, data)
	}
	if h.format == "yaml" {
		return usagef("--format yaml is the curve of a link, but %s has kernels: choose table or json", c.args[0])
	}
	for _, name := range []string{"from", "link", "path", "batch", "translate", "inline", "source"} {
		if c.changed(name) {
			return usagef("--%s is for links, but %s has kernels: remove it", name, strings.TrimSpace(c.args[0]))
		}
	}
	return h.fitKernels(c, data, c.args[0])
}

func (f *curveFlags) run(c *call, format string, form fit.Form, data []byte) error {
	path, w := c.args[0], c.stdout
	groups, err := fit.ReadCSV(bytes.NewReader(data), path)
	if err != nil {
		return err
	}
	var all []fittedSeries
	for i, g := range groups {
		r, err := fit.Curve(g.Points, form)
		if err != nil {
			return fmt.Errorf("%s: series %q: %w", path, g.Series, err)
		}
		switch format {
		case "json":
			all = append(all, fittedOf(g, r))
			continue
		case "yaml":
			if len(groups) > 1 {
				fmt.Fprintf(w, "# %s\n", g.Series)
			}
			err = fit.WriteYAML(w, r.Curve, f.source)
		default:
			if i > 0 {
				fmt.Fprintln(w)
			}
			err = fit.WriteResult(w, g.Series, r, g.Points)
		}
		if err != nil {
			return err
		}
	}
	if format == "json" {
		return text.WriteJSON(w, all)
	}
	return nil
}

func fittedOf(g fit.Group, r *fit.Result) fittedSeries {
	s := fittedSeries{Series: g.Series, Launch: r.Curve.Launch, Submit: r.Curve.Submit, Ahead: r.Curve.Ahead,
		Untold: append([]string{}, r.Zero...), Worst: fit.Worst(r.Errors)}
	if e := fit.Worst(r.LeftOut); !math.IsNaN(e) {
		s.WorstLeft = &e
	}
	for _, g := range r.Curve.Regimes {
		s.Regimes = append(s.Regimes, fittedRegime{g.From, g.Descriptor, g.Rate, g.Inline})
	}
	for i, p := range g.Points {
		point := fittedPoint{Line: p.Line, Measured: p.Seconds, Fitted: r.Curve.Time(p.Request), Error: r.Errors[i]}
		if e := r.LeftOut[i]; !math.IsNaN(e) {
			point.LeftOut = &e
		}
		s.Points = append(s.Points, point)
	}
	return s
}

func (f *hardwareFlags) points() command {
	var only []string
	return command{
		use:   "points",
		short: "Compare the models with every measurement in the data files",
		long: `Compare the models with every measured point in the data files of links and drives.
The table has the error, the error without the point in the fit, and the reason for errors above
15 %. replay/transfer/POINTS.md is this table for the bundled files.`,
		example: "  kvreplay hardware points\n  kvreplay hardware points --only pcie5-x16 --format json",
		flags: func(fl *flagSet) {
			fl.StringSliceVar(&only, "only", nil, "compare only these `NAMES` of links and drives (default: all)")
			fl.format(&f.format, "", "table", "json", "markdown")
		},
		run: func(c *call) error {
			lib, err := f.load()
			if err != nil {
				return err
			}
			rows, err := fit.Compare(lib)
			if err != nil {
				return err
			}
			if rows, err = pointsOf(lib, rows, only); err != nil {
				return err
			}
			switch f.format {
			case "json":
				return text.WriteJSON(c.stdout, append([]fit.Comparison{}, rows...))
			case "markdown":
				return fit.WriteComparisonsMarkdown(c.stdout, rows)
			}
			return fit.WriteComparisons(c.stdout, rows)
		},
	}
}

// pointsOf returns the points of the named links and drives, or all without names.
func pointsOf(lib *hardware.Library, rows []fit.Comparison, only []string) ([]fit.Comparison, error) {
	var measured, chosen []string
	for _, r := range rows {
		measured = slice.Add(measured, r.Item)
	}
	for _, name := range only {
		it, err := lib.Item(hardware.KindLink, name)
		if err != nil {
			it, err = lib.Item(hardware.KindDrive, name)
		}
		switch {
		case err != nil:
			return nil, usagef("--only %q%s: expected a link or drive with measured points: %s", name, names.Nearest(name, measured), strings.Join(measured, ", "))
		case !slices.Contains(measured, hardware.Head(it).Name):
			return nil, usagef("--only %s has no measured points: choose from %s", name, strings.Join(measured, ", "))
		}
		chosen = append(chosen, hardware.Head(it).Name)
	}
	if only == nil {
		return rows, nil
	}
	return slices.DeleteFunc(rows, func(r fit.Comparison) bool { return !slices.Contains(chosen, r.Item) }), nil
}
