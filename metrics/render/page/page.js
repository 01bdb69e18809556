"use strict";
// The table and the curves of a page. Texts of the data reach the page only as text nodes,
// attributes and options. No text becomes markup.
(() => {
  const exact = 0, bound = 1, lossy = 2;
  const root = document.documentElement;
  const redraws = [];

  // make returns an element with attributes and children. Texts become text nodes.
  function make(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
      else if (value === true) e.setAttribute(name, "");
      else if (value !== false && value != null) e.setAttribute(name, value);
    }
    e.append(...children);
    return e;
  }

  const option = (text, value) => make("option", { value }, text);
  const labelled = (text, control) => make("label", {}, text, control);
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // decimals returns the digits that an interval supports: the first digit of its half-width,
  // and one more after a 1. Without an interval a figure has three significant digits.
  function decimals(x, low, high) {
    const half = low == null ? 0 : high == null ? x - low : (high - low) / 2;
    const exponent = (v, digits) => +v.toExponential(digits).split("e")[1];
    const one = half > 0 && [0, 1].some((digits) => half.toExponential(digits)[0] === "1");
    const places = half > 0 ? (one ? 1 : 0) - exponent(half, 0) : 2 - exponent(x || 1, 2);
    return Math.max(0, Math.min(half > 0 ? 4 : 3, places));
  }
  const number = (x, low, high) => (x == null ? "n/a" : x.toFixed(decimals(x, low, high)));
  function figure(x, low, high, scale, suffix) {
    if (x == null) return "n/a";
    const times = (v) => (v == null ? null : v * scale);
    const [v, l, h] = [times(x), times(low), times(high)];
    const d = decimals(v, l, h);
    const interval = l == null || l === h ? "" : ` [${l.toFixed(d)}, ${h == null ? "∞)" : h.toFixed(d) + "]"}`;
    return v.toFixed(d) + suffix + interval;
  }
  function bytes(x) {
    if (x == null) return "n/a";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    for (; x >= 999.5 && i < 4; i++) x /= 1024;
    return x.toPrecision(3).replace(/e\+2$/, "00") + " " + units[i];
  }

  // csvCell quotes a cell. A quote before a formula keeps spreadsheets from computing it.
  function csvCell(x) {
    if (x == null) return "";
    let s = String(x);
    if (typeof x !== "number" && /^'*[=+\-@\t\r\n＝＋－＠]/.test(s)) s = "'" + s;
    return /[",\r\n]/.test(s) ? '"' + s.replaceAll('"', '""') + '"' : s;
  }
  function csvButton(name, rows, of) {
    return make("button", { type: "button", class: "csv", "aria-label": "Download CSV: " + of, onclick: () => {
      const text = rows().map((r) => r.map(csvCell).join(",") + "\n").join("");
      const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      make("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    } }, "Download CSV");
  }

  // decode gives lines names and places their policies and the ends of intervals.
  function decode(data) {
    data.lines = data.lines.map(([t, c, p, v, l, h, r, b]) => {
      const kind = data.policies[p].kind, pooled = t < 0 && c < 0;
      return { t, c, p, v, l, h, r, b, s: pooled ? data.policies[p].tpot : null, k: c < 0 ? null : data.k[kind === lossy ? 1 : 0][c] };
    });
    data.places.forEach((place, i) => { place.p ??= data.places[i - 1].p; });
    return data;
  }

  // expand returns all figures of a place, one object per policy.
  function expand(data, place) {
    const demand = data.traces[place.t].demand;
    const end = (value, distance, unit) => (value == null || distance == null ? null : +(value + distance * unit).toPrecision(6));
    const opt = place.p.findIndex((p) => data.policies[p].kind === bound && data.policies[p].name === "opt");
    return place.p.map((p, i) => {
      const isLossy = data.policies[p].kind === lossy, m = place.m[i];
      const ratio = demand > 0 ? m / demand : null;
      const value = isLossy ? (ratio == null ? null : 1 - ratio) : opt >= 0 && place.m[opt] > 0 ? m / place.m[opt] : null;
      return { t: place.t, c: place.c, p, m, v: value, l: end(value, place.l[i], -1e-4), h: end(value, place.h[i], 1e-4), r: isLossy || ratio == null ? null : 1 - ratio, b: null, s: null, ratio, k: place.k, e: place.e };
    });
  }

  function tableFigure(data, section) {
    const content = section.querySelector(".content"), heading = section.querySelector("h3").textContent;
    const most = 200, each = -2;
    const trace = make("select", {}, option("all, pooled", -1), option("each", each), ...data.traces.map((t, i) => option(t.name, i)));
    const capacity = make("select", {}, option("all, pooled", -1), option("each", each), ...data.capacities.map((c, i) => option(c, i)));
    const kind = make("select", {}, option("exact, lossy and bounds", "all"), option("exact", exact), option("lossy", lossy), option("bounds", bound));
    const policy = make("input", { type: "search", placeholder: "part of a name", autocomplete: "off" });
    const percent = (x) => (x == null ? "n/a" : figure(x, null, null, 100, " %"));
    const columns = [
      { name: "#", key: (l) => kindOf(l) * 1e4 + data.policies[l.p].place, text: (l) => data.policies[l.p].rank, right: true },
      { name: "policy", key: (l) => data.policies[l.p].name, text: (l) => data.policies[l.p].name, header: true },
      { name: "kind", key: (l) => kindOf(l), text: (l) => ["exact", "bound", "lossy"][kindOf(l)] },
      { name: "trace", key: (l) => (l.t < 0 ? "" : data.traces[l.t].name), text: (l) => (l.t < 0 ? "all" : data.traces[l.t].name) },
      { name: "capacity", key: (l) => l.c, text: (l) => (l.c < 0 ? "all" : data.capacities[l.c]) },
      { name: "× OPT", key: (l) => (kindOf(l) === lossy ? null : l.v), text: (l) => (kindOf(l) === lossy ? "" : figure(l.v, l.l, l.h, 1, "")), right: true },
      { name: "recall", key: (l) => (kindOf(l) === lossy ? l.v : null), text: (l) => (kindOf(l) === lossy ? figure(l.v, l.l, l.h, 100, " %") : ""), right: true },
      { name: "hit rate", key: (l) => l.r, text: (l) => (kindOf(l) === lossy ? "" : percent(l.r)), right: true },
      { name: "H2D/step", key: (l) => l.b, text: (l) => (l.b == null ? "" : bytes(l.b)), right: true },
    ];
    if (data.timed) columns.push({ name: "TPOT (ms)", key: (l) => l.s, text: (l) => (l.s == null ? "" : number(1e3 * l.s)), right: true });
    function kindOf(l) { return data.policies[l.p].kind; }
    const status = make("p", { role: "status" }), body = make("tbody", {});
    const more = make("button", { type: "button", class: "more", onclick: () => { all = true; show(); } }, "Show all lines");
    let sorted = 0, down = false, all = false, lines = [];
    const heads = columns.map((c, i) => make("th", { scope: "col", class: c.right && "right" },
      make("button", { type: "button", onclick: () => { down = sorted === i && !down; sorted = i; show(); } }, c.name)));
    function select() {
      const t = +trace.value, c = +capacity.value;
      const places = t !== -1 && c !== -1;
      const from = places
        ? data.places.filter((p) => (t === each || p.t === t) && (c === each || p.c === c)).flatMap((p) => expand(data, p))
        : data.lines.filter((l) => (t === each ? l.t >= 0 : l.t === t) && (c === each ? l.c >= 0 : l.c === c));
      const words = policy.value.toLowerCase().split(/[\s,]+/).filter((w) => w);
      lines = from.filter((l) => (kind.value === "all" || kindOf(l) === +kind.value) &&
        (words.length === 0 || words.some((w) => data.policies[l.p].name.toLowerCase().includes(w))));
    }
    const compare = (a, b) => (typeof a === "string" ? (a < b ? -1 : a > b ? 1 : 0) : a - b);
    function show() {
      select();
      const key = columns[sorted].key, sign = down ? -1 : 1;
      lines.sort((a, b) => {
        const x = key(a), y = key(b);
        if (x == null || y == null) return (x == null) - (y == null);
        return sign * compare(x, y) || columns[0].key(a) - columns[0].key(b) || a.t - b.t || a.c - b.c;
      });
      heads.forEach((h, i) => (i === sorted ? h.setAttribute("aria-sort", down ? "descending" : "ascending") : h.removeAttribute("aria-sort")));
      const shown = all ? lines : lines.slice(0, most);
      body.replaceChildren(...shown.map((l) => make("tr", {}, ...columns.map((c) =>
        make(c.header ? "th" : "td", { scope: c.header && "row", class: c.right && "right", "data-column": c.name }, c.text(l))))));
      more.hidden = shown.length === lines.length;
      status.textContent = `${shown.length} of ${lines.length} lines`;
    }
    for (const control of [trace, capacity, kind, policy]) control.addEventListener("input", () => { all = false; show(); });
    content.append(
      make("div", { class: "controls" }, labelled("Trace", trace), labelled("Capacity", capacity), labelled("Kind", kind), labelled("Policy", policy),
        csvButton(`${data.stem}-table.csv`, () => [["rank", "policy", "kind", "trace", "capacity", "x_opt", "recall", "low", "high", "hit_rate", "bytes_per_step", "tpot_s"],
          ...lines.map((l) => [data.policies[l.p].rank, data.policies[l.p].name, ["exact", "bound", "lossy"][kindOf(l)], l.t < 0 ? "" : data.traces[l.t].name, l.c < 0 ? "" : data.capacities[l.c],
            kindOf(l) === lossy ? null : l.v, kindOf(l) === lossy ? l.v : null, l.l, l.h, l.r, l.b, l.s])], heading)),
      status,
      make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": heading + ": table" },
        make("table", { class: "listed" }, make("thead", {}, make("tr", {}, ...heads)), body)), more);
    show();
  }

  // The style of a policy: OPT in ink and dashed, other bounds in grey, others by place.
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
  function styleOf(policy) {
    if (policy.kind === bound) return { stroke: policy.name === "opt" ? "--ink" : "--grey", dash: policy.name === "opt" ? [6, 4] : [2, 4] };
    return { stroke: "--c" + (policy.place % 6), dash: dashes[Math.floor(policy.place / 6) % dashes.length] };
  }
  function swatch(policy) {
    const ns = "http://www.w3.org/2000/svg", style = styleOf(policy);
    const svg = document.createElementNS(ns, "svg"), line = document.createElementNS(ns, "line");
    for (const [k, v] of [["width", 30], ["height", 10], ["aria-hidden", "true"]]) svg.setAttribute(k, v);
    for (const [k, v] of [["x1", 0], ["x2", 30], ["y1", 5], ["y2", 5], ["stroke-width", 3], ["stroke-dasharray", style.dash.join(" ")]]) line.setAttribute(k, v);
    line.style.stroke = `var(${style.stroke})`;
    svg.append(line);
    return svg;
  }

  // curves draws one figure: what.points gives, for a trace or -1 for all, the points
  // {p, x, y, low, high, c} of the policies.
  function curves(data, section, what) {
    const content = section.querySelector(".content");
    const policies = data.policies.map((_, i) => i).filter((i) => what.kinds.includes(data.policies[i].kind));
    const choices = [...(what.pooled ? [-1] : []), ...data.traces.keys()].filter((t) => (t < 0 ? what.points(t).length > 0 : what.has(t)));
    if (choices.length === 0) { section.remove(); return; }
    const trace = make("select", {}, ...choices.map((t) => option(t < 0 ? "all, pooled" : data.traces[t].name, t)));
    const shown = new Set(policies.filter((i) => data.policies[i].focus));
    const heading = section.querySelector("h3").textContent;
    const plot = make("div", { class: "plot", role: "img" }), readout = make("div", { class: "readout", "aria-hidden": "true" });
    const values = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${heading}: values` });
    const digest = make("p", {});
    const boxes = policies.map((i) => make("label", {},
      make("input", { type: "checkbox", checked: shown.has(i), onchange: (e) => { if (e.target.checked) shown.add(i); else shown.delete(i); draw(); } }),
      swatch(data.policies[i]), data.policies[i].short));
    const rowsOf = () => what.points(+trace.value);
    content.append(
      make("div", { class: "controls" }, labelled("Trace", trace),
        csvButton(`${data.stem}-${section.dataset.figure}.csv`, () => [["trace", "capacity", "policy", what.xName(+trace.value), what.yName, "low", "high", "misses"],
          ...rowsOf().map((q) => [+trace.value < 0 ? "" : data.traces[trace.value].name, data.capacities[q.c], data.policies[q.p].name, q.x, q.y, q.low, q.high, q.m])], heading)),
      plot, readout, make("fieldset", {}, make("legend", {}, "Policies"), ...boxes),
      make("details", {}, make("summary", {}, "Values of the shown policies"), values));
    section.querySelector(".source").append(digest);
    trace.addEventListener("input", draw);
    let chart = null;

    function draw() {
      const t = +trace.value, points = rowsOf();
      const xs = [...new Set(points.map((q) => q.x))].sort((a, b) => a - b);
      const at = new Map(xs.map((x, i) => [x, i]));
      const lines = policies.filter((i) => shown.has(i)).map((i) => {
        const line = { i, y: xs.map(() => null), low: xs.map(() => null), high: xs.map(() => null) };
        for (const q of points) if (q.p === i) { const j = at.get(q.x); line.y[j] = q.y; line.low[j] = q.low; line.high[j] = q.high; }
        return line;
      }).filter((l) => l.y.some((y) => y != null));
      const name = t < 0 ? "all traces, pooled" : data.traces[t].name;
      digest.textContent = t < 0 ? "" : `Digest of ${name}: ${data.traces[t].digest}`;
      plot.setAttribute("aria-label", `${heading}, ${name}: ${lines.length} policies at ${xs.length} capacities. The values are in the list below.`);
      const capacityAt = new Map(points.map((q) => [q.x, data.capacities[q.c]]));
      values.replaceChildren(make("table", {},
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "policy"), ...xs.map((x) => make("th", { scope: "col", class: "right" }, capacityAt.get(x))))),
        make("tbody", {}, ...lines.map((l) => make("tr", {}, make("th", { scope: "row" }, data.policies[l.i].name),
          ...xs.map((_, j) => make("td", { class: "right" }, figure(l.y[j], l.low[j], l.high[j], what.scale, what.suffix))))))));
      readout.textContent = "Point at a capacity to read its values.";
      if (chart) chart.destroy();
      chart = null;
      if (lines.length === 0) { readout.textContent = "No policy is shown."; return; }
      const scaled = (v) => v.map((y) => (y == null ? null : y * what.scale));
      const low = xs[0], high = xs[xs.length - 1], pad = Math.pow(Math.max(high / low, 1.2), 0.04);
      const text = color("--ink"), grid = { stroke: color("--line"), width: 1 };
      const font = "13px system-ui, sans-serif";
      chart = new uPlot({
        width: Math.max(200, plot.clientWidth), height: Math.max(300, Math.min(460, plot.clientWidth * 0.6)),
        legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
        scales: { x: { time: false, distr: 3, log: 2, range: () => [low / pad, high * pad] }, y: { range: (u, a, b) => {
          const ends = lines.flatMap((l) => [...l.low, ...l.high]).filter((x) => x != null).map((x) => x * what.scale);
          [a, b] = [Math.min(a, ...ends), Math.min(1.5 * b, Math.max(b, ...ends))];
          const room = (b - a || b || 1) * 0.06;
          return [Math.max(0, a - room), b + room];
        } } },
        axes: [
          { stroke: text, grid, ticks: grid, font, labelFont: font, label: what.xLabel(t), splits: (u) => {
            let last = -Infinity;
            return xs.filter((x) => { const p = u.valToPos(x, "x"); if (p - last < 52) return false; last = p; return true; });
          }, values: (u, ticks) => ticks.map((x) => what.xText(x, t)) },
          { stroke: text, grid, ticks: grid, font, labelFont: font, label: what.yLabel, size: 58 },
        ],
        series: [{}, ...lines.map((l) => {
          const style = styleOf(data.policies[l.i]);
          return { stroke: color(style.stroke), width: 2, dash: style.dash, spanGaps: true, points: { show: xs.length <= 20, size: 7, fill: color("--page") } };
        })],
        hooks: {
          draw: [(u) => { // intervals
            const c = u.ctx;
            c.save();
            c.lineWidth = 1.5 * devicePixelRatio;
            lines.forEach((l, n) => {
              c.strokeStyle = u.series[n + 1].stroke();
              xs.forEach((x, j) => {
                if (l.low[j] == null || l.high[j] == null) return;
                const px = u.valToPos(x, "x", true);
                c.beginPath();
                c.moveTo(px, u.valToPos(l.low[j] * what.scale, "y", true));
                c.lineTo(px, u.valToPos(l.high[j] * what.scale, "y", true));
                c.stroke();
              });
            });
            c.restore();
          }],
          setCursor: [(u) => {
            const j = u.cursor.idx;
            if (j == null) return;
            readout.textContent = `${capacityAt.get(xs[j])}: ` + lines.filter((l) => l.y[j] != null)
              .sort((a, b) => what.sign * (a.y[j] - b.y[j])).map((l) => `${data.policies[l.i].short} ${number(l.y[j] * what.scale, l.low[j] && l.low[j] * what.scale, l.high[j] && l.high[j] * what.scale)}${what.suffix}`).join(" · ");
          }],
        },
      }, [xs, ...lines.map((l) => scaled(l.y))], plot);
      for (const e of plot.querySelectorAll("[tabindex]")) e.removeAttribute("tabindex");
    }
    let width = 0;
    new ResizeObserver(() => { if (plot.clientWidth !== width) { width = plot.clientWidth; draw(); } }).observe(plot);
    redraws.push(draw);
  }

  // heat shows one map of layers and heads as a table. Shades are shares of the largest miss ratio.
  function heat(data, section) {
    if (data.heat.length === 0) { section.remove(); return; }
    const content = section.querySelector(".content"), heading = section.querySelector("h3").textContent;
    const distinct = (field, name) => [...new Set(data.heat.map((h) => h[field]))].sort((a, b) => a - b).map((i) => option(name(i), i));
    const trace = make("select", {}, ...distinct("t", (i) => data.traces[i].name));
    const capacity = make("select", {}, ...distinct("c", (i) => data.capacities[i]));
    const policy = make("select", {}, ...distinct("p", (i) => data.policies[i].short));
    const view = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": heading + ": table" });
    const headName = (h) => (h < 0 ? "all heads" : "head " + h);
    function draw() {
      const h = data.heat.find((m) => m.t === +trace.value && m.c === +capacity.value && m.p === +policy.value);
      if (!h) { view.replaceChildren(make("p", {}, "The page has no such map.")); return; }
      const ratios = h.m.map((m, i) => (h.d[i] > 0 ? m / h.d[i] : null));
      const most = Math.max(1e-9, ...ratios);
      view.replaceChildren(make("table", { class: "heat" },
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "layer"), ...h.heads.map((n) => make("th", { scope: "col", class: "right" }, headName(n))))),
        make("tbody", {}, ...h.layers.map((layer, row) => make("tr", {}, make("th", { scope: "row" }, "layer " + layer),
          ...h.heads.map((_, column) => {
            const ratio = ratios[row * h.heads.length + column];
            const cell = make("td", { class: "right" }, ratio == null ? "" : (100 * ratio).toFixed(1) + " %");
            if (ratio != null) cell.style.setProperty("--heat", (45 * ratio / most).toFixed(1) + "%");
            return cell;
          }))))));
    }
    for (const control of [trace, capacity, policy]) control.addEventListener("input", draw);
    content.append(make("div", { class: "controls" }, labelled("Trace", trace), labelled("Capacity", capacity), labelled("Policy", policy),
      csvButton(`${data.stem}-heat.csv`, () => [["trace", "capacity", "policy", "layer_id", "head", "misses", "demand"],
        ...data.heat.flatMap((h) => h.m.map((m, i) => [data.traces[h.t].name, data.capacities[h.c], data.policies[h.p].name,
          h.layers[Math.floor(i / h.heads.length)], h.heads[i % h.heads.length] < 0 ? null : h.heads[i % h.heads.length], m, h.d[i]]))], heading)), view);
    draw();
  }

  function board(section) {
    const data = decode(JSON.parse(section.querySelector("script.data").textContent));
    const byTrace = data.traces.map((_, t) => data.places.filter((p) => p.t === t));
    const multiple = (x) => String(+x.toPrecision(4));
    // over gives a figure over capacity ÷ K: pooled, from lines, or of a trace.
    const over = (kinds) => (t) => (t < 0
      ? data.lines.filter((l) => l.t < 0 && l.c >= 0 && l.k != null).map((l) => ({ p: l.p, c: l.c, x: l.k, y: l.v, low: l.l, high: l.h, m: null }))
      : byTrace[t].filter((p) => p.k != null).flatMap((p) => expand(data, p)).map((l) => ({ p: l.p, c: l.c, x: l.k, y: l.v, low: l.l, high: l.h, m: l.m })))
      .filter((q) => q.y != null && kinds.includes(data.policies[q.p].kind));
    const has = (kinds, x) => (t) => byTrace[t].some((p) => p[x] != null && data.traces[t].demand > 0 && p.p.some((i) => kinds.includes(data.policies[i].kind)));
    const overK = { xName: () => "capacity_over_k", xLabel: () => "capacity of a stream ÷ K (log scale)", xText: multiple, pooled: true };
    const figures = {
      table: (s) => tableFigure(data, s),
      heat: (s) => heat(data, s),
      curves: (s) => curves(data, s, { ...overK, kinds: [exact, bound], points: over([exact, bound]), has: has([exact, bound], "k"), yName: "x_opt", yLabel: "misses ÷ OPT", scale: 1, suffix: "", sign: 1 }),
      recall: (s) => curves(data, s, { ...overK, kinds: [lossy], points: over([lossy]), has: has([lossy], "k"), yName: "recall", yLabel: "recall (%)", scale: 100, suffix: " %", sign: -1 }),
      memory: (s) => curves(data, s, {
        kinds: [exact, bound], pooled: false, has: has([exact, bound], "e"), yName: "miss_ratio", yLabel: "miss ratio (%)", scale: 100, suffix: " %", sign: 1,
        xName: (t) => (data.traces[t].bytes == null ? "entries" : "bytes_per_" + data.traces[t].owner),
        xLabel: (t) => (data.traces[t].bytes == null ? "entries of a stream (log scale)" : `memory of the caches of a ${data.traces[t].owner} (log scale)`),
        xText: (x, t) => (data.traces[t].bytes == null ? multiple(x) : bytes(x)),
        points: (t) => byTrace[t].filter((p) => p.e != null).flatMap((p) => expand(data, p)).filter((l) => l.ratio != null && data.policies[l.p].kind !== lossy)
          .map((l) => ({ p: l.p, c: l.c, x: l.e * (data.traces[t].bytes ?? 1), y: l.ratio, low: null, high: null, m: l.m })),
      }),
    };
    section.querySelector(".interactive").hidden = false;
    for (const s of section.querySelectorAll("section.figure")) {
      if (data.policies.length === 0) s.remove();
      else figures[s.dataset.figure](s);
    }
  }

  // units are factors of the units that cells may have.
  const units = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 1024, MiB: 2 ** 20, GiB: 2 ** 30 };
  function measure(text) {
    const [, value, unit] = text.match(/^\s*([-+]?[0-9][0-9.]*)\s*([A-Za-z]*)/) || [];
    return value == null ? null : +value * (units[unit] ?? 1);
  }

  // list lets a narrow window show each row of a table as a list of cells with their columns' names.
  function list(t) {
    if (!t.tHead) return;
    const names = [...t.tHead.rows[0].cells].map((h) => h.textContent);
    t.classList.add("listed");
    for (const r of t.tBodies[0].rows) [...r.cells].forEach((c, i) => { c.dataset.column = names[i]; });
  }

  // sortable gives a table of a report headers that sort, a filter and a download. That of a figure is
  // below its title.
  function sortable(section) {
    const t = section.querySelector("table"), rows = [...t.tBodies[0].rows], heads = t.tHead ? [...t.tHead.rows[0].cells] : [];
    const title = section.querySelector("h3").textContent, names = heads.map((h) => h.textContent);
    let sorted = -1, down = false;
    heads.forEach((h, i) => {
      h.replaceChildren(make("button", { type: "button", onclick: () => {
        down = sorted === i && !down;
        sorted = i;
        const order = (a, b) => {
          const [x, y] = [a, b].map((r) => r.cells[i].textContent), [m, n] = [measure(x), measure(y)];
          if ((m == null) !== (n == null)) return m == null ? 1 : -1;
          return (m == null ? x.localeCompare(y) : m - n) * (down ? -1 : 1);
        };
        t.tBodies[0].append(...[...rows].sort(order));
        heads.forEach((g) => g.removeAttribute("aria-sort"));
        h.setAttribute("aria-sort", down ? "descending" : "ascending");
      } }, names[i]));
    });
    const filter = make("input", { type: "search", oninput: () => {
      for (const r of rows) r.hidden = !r.textContent.toLowerCase().includes(filter.value.toLowerCase());
    } });
    const controls = section.querySelector(".controls");
    controls.append(labelled("Filter " + title, filter));
    (section.querySelector("figcaption") ?? controls).append(
      csvButton(title.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60) + ".csv", () => [names, ...[...t.tBodies[0].rows].filter((r) => !r.hidden).map((r) => [...r.cells].map((c) => c.textContent))], title));
  }

  const system = matchMedia("(prefers-color-scheme: dark)"), button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  function themed() {
    button.setAttribute("aria-pressed", isDark());
    for (const draw of redraws) draw();
  }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("kvreplay-theme", root.dataset.theme); } catch { /* pages of files may have no storage */ }
    themed();
  });
  try { const kept = localStorage.getItem("kvreplay-theme"); if (kept === "light" || kept === "dark") root.dataset.theme = kept; } catch { /* as above */ }
  system.addEventListener("change", themed);
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; themed(); });
  addEventListener("afterprint", () => { if (before) root.dataset.theme = before; else delete root.dataset.theme; themed(); });
  button.hidden = false;
  for (const t of document.querySelectorAll(".scroll > table")) list(t);
  for (const section of document.querySelectorAll("section.board")) board(section);
  for (const section of document.querySelectorAll(".table")) sortable(section);
  button.setAttribute("aria-pressed", isDark());
})();
