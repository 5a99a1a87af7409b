// Puts plots that one can zoom and read in the place of the static figures. The data of each figure stands beside its SVG.
(() => {
  "use strict";
  const parts = [];           // [variant, shows or hides what is its]
  const figures = [];         // functions that show the whole of a figure again
  const font = "12px system-ui, sans-serif";
  const four = v => v == null ? "–" : String(+v.toPrecision(4));

  // Points of all series over one list of places, as uPlot wants them.
  function joined(panel, span) {
    if (!panel.series.length) return [span];
    const floor = panel.range[0];
    const seen = (s, v) => panel.log && v < floor ? floor : v;
    const tables = panel.series.map(s => [s.x, s.y.map(v => seen(s, v))].map(a => a.slice()));
    return uPlot.join(tables.map(distinct));
  }

  // uPlot joins by place; of points at the very same place the later one moves by next to nothing.
  function distinct([xs, ys]) {
    for (let i = 1; i < xs.length; i++) if (xs[i] <= xs[i - 1]) xs[i] = xs[i - 1] + Math.max(1e-9, Math.abs(xs[i - 1]) * 1e-9);
    return [xs, ys];
  }

  // The point of a series nearest to the cursor, if one is near.
  function nearest(u, si, idx) {
    const ys = u.data[si], xs = u.data[0];
    if (si === 0 || idx == null || ys[idx] != null) return idx;
    let lo = idx - 1, hi = idx + 1;
    while (lo >= 0 && ys[lo] == null) lo--;
    while (hi < ys.length && ys[hi] == null) hi++;
    const far = i => i < 0 || i >= ys.length ? Infinity : Math.abs(u.valToPos(xs[i], "x") - u.cursor.left);
    const best = far(lo) <= far(hi) ? lo : hi;
    return far(best) <= 25 ? best : null;
  }

  // The background of another series, such as a level to aim at.
  const behind = s => !s.name && (s.color.length > 7 || s.shape === "dots");

  function series(s, y) {
    const dot = { stroke: s.color, fill: s.color, width: 0 };
    const base = { label: s.name || y, stroke: s.color, width: 1.5, spanGaps: true, points: { show: false }, value: (u, v) => four(v) };
    switch (s.shape) {
      case "dots": return { ...base, paths: () => null, points: { ...dot, show: true, size: 3 } };
      case "rings": return { ...base, paths: () => null, points: { show: true, size: 9, width: 2, stroke: s.color, fill: "#fff0" } };
      case "marked": return { ...base, points: { ...dot, show: true, size: 7 } };
      case "dashed": return { ...base, dash: [6, 4] };
      default: return base;
    }
  }

  // The round values of a logarithmic axis.
  function decades(u, i, min, max) {
    const out = [];
    for (let d = Math.floor(Math.log10(min)); d <= Math.ceil(Math.log10(max)); d++) {
      for (const step of max / min > 300 ? [1] : max / min > 3 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]) out.push(step * 10 ** d);
    }
    return out.filter(v => v >= min * (1 - 1e-9) && v <= max * (1 + 1e-9));
  }

  // What uPlot does not draw: moments with what happens then, and error bars.
  function extras(figure, panel) {
    return u => {
      const { ctx, bbox } = u, dpr = devicePixelRatio;
      const y = v => u.valToPos(Math.max(v, panel.log ? panel.range[0] : v), "y", true);
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.lineWidth = dpr;
      ctx.font = 10 * dpr + "px system-ui, sans-serif";
      ctx.textBaseline = "top";
      ctx.textAlign = "left";
      ctx.setLineDash([]);
      let free = -Infinity;
      for (const [at, words] of figure.marks) {
        const x = u.valToPos(at, "x", true);
        // Zoomed away; its words would reach back in.
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.strokeStyle = ctx.fillStyle = "#5a5a5a";
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        if (x >= free) {
          ctx.fillText(words, x + 4 * dpr, bbox.top + 2 * dpr);
          free = x + ctx.measureText(words).width + 12 * dpr;
        }
      }
      panel.series.forEach((s, i) => {
        if (!u.series[i + 1].show) return;
        ctx.strokeStyle = s.color;
        s.intervals.forEach((interval, n) => {
          if (!interval) return;
          const x = u.valToPos(s.x[n], "x", true), [low, high] = interval.map(y), half = 4 * dpr;
          ctx.beginPath();
          for (const [a, b, c, d] of [[x, low, x, high], [x - half, low, x + half, low], [x - half, high, x + half, high]]) {
            ctx.moveTo(a, b);
            ctx.lineTo(c, d);
          }
          ctx.stroke();
        });
      });
      ctx.restore();
    };
  }

  // Two fingers zoom and move along the horizontal axis, one reads values.
  function touch(u, zoom) {
    let from = null;
    const place = (t, side) => t.clientX - side.left;
    const value = x => u.posToVal(x, "x");
    const log = u.scales.x.distr === 3, to = v => log ? Math.log(v) : v, back = v => log ? Math.exp(v) : v;
    const both = e => [...e.touches].map(t => place(t, u.over.getBoundingClientRect())).sort((a, b) => a - b);
    u.over.addEventListener("touchstart", e => {
      from = e.touches.length === 2 ? both(e).map(x => to(value(x))) : null;
    }, { passive: true });
    u.over.addEventListener("touchmove", e => {
      if (!from || e.touches.length !== 2) return;
      e.preventDefault();
      const [a, b] = both(e), slope = (from[1] - from[0]) / Math.max(b - a, 1), start = from[0] - a * slope;
      zoom([back(start), back(start + slope * u.over.clientWidth)]);
    }, { passive: false });
  }

  function build(box) {
    const script = box.querySelector('script[type="application/json"]'), still = box.querySelector(".static");
    if (!script) return;
    const figure = JSON.parse(script.textContent), plots = [], key = uPlot.sync(String(figures.length));
    const grid = document.createElement("div");
    let span = figure.span;
    const zoomed = [];        // a range for each row whose vertical axis was zoomed
    const redraw = row => plots.forEach(p => {
      if (row == null || p.row === row) p.u.setScale("y", range(p.row, p.panel));
      if (row == null) p.u.setScale("x", { min: span[0], max: span[1] });
    });
    const range = (row, panel) => { const [min, max] = zoomed[row] || panel.range; return { min, max }; };
    const inside = ([a, b]) => [Math.max(a, figure.span[0]), Math.min(b, figure.span[1])];
    const zoomX = to => { span = inside(to); if (span[1] > span[0]) redraw(); };

    figure.rows.forEach((row, nth) => {
      const line = document.createElement("div");
      line.className = "panels";
      grid.append(line);
      for (const panel of row) {
        const cell = document.createElement("div"), title = document.createElement("h4");
        cell.className = "panel";
        title.textContent = panel.title;
        cell.append(title);
        line.append(cell);
        const selected = u => {
          const { left, top, width, height } = u.select;
          if (width < 4 && height < 4) return;
          if (height > 4 && height < u.over.clientHeight - 1) {
            zoomed[nth] = [u.posToVal(top + height, "y"), u.posToVal(top, "y")];
          }
          const to = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          zoomX(to);
        };
        const axis = (label, log) => ({ ...(log ? { splits: decades, filter: (u, vs) => vs } : {}), label, labelFont: font, font, labelSize: 20, labelGap: 2, grid: { stroke: "#e4e4e4", width: 1 }, ticks: { stroke: "#1e1e1e", size: 4, width: 1 }, stroke: "#1e1e1e", values: (u, vs) => vs.map(v => v == null ? "" : four(v)) });
        const u = new uPlot({
          width: cell.clientWidth || 320, height: row.length > 1 ? 200 : 300,
          scales: {
            x: { time: false, distr: figure.log ? 3 : 1, range: () => span },
            y: { distr: panel.log ? 3 : 1, range: () => zoomed[nth] || panel.range },
          },
          axes: [{ ...axis(figure.x, figure.log), size: 28 }, { ...axis(panel.y, panel.log), size: 46 }],
          series: [{ label: figure.x, value: (u, v) => four(v) }, ...panel.series.map(s => series(s, panel.y))],
          cursor: {
            dataIdx: nearest, points: { size: 6 },
            drag: { x: true, y: true, uni: 30, setScale: false },
            sync: { key: key.key, setSeries: false, filters: { pub: type => type === "mousemove" || type === "mouseleave" || type === "mouseenter" } },
            bind: { dblclick: () => () => { whole(); return null; } },
          },
          hooks: { setSelect: [selected], draw: [extras(figure, panel)] },
        }, joined(panel, figure.span), cell);
        const rows = u.root.querySelectorAll(".u-legend .u-series");
        panel.series.forEach((s, i) => { if (behind(s)) rows[i + 1].style.display = "none"; });
        plots.push({ u, panel, row: nth });
        touch(u, zoomX);
        if (panel.variant) parts.push([panel.variant, on => { cell.hidden = !on; }]);
        panel.series.forEach((s, i) => {
          if (s.variant) parts.push([s.variant, on => u.setSeries(i + 1, { show: on })]);
        });
        let width = 0;
        new ResizeObserver(() => {
          if (cell.clientWidth && cell.clientWidth !== width) u.setSize({ width: width = cell.clientWidth, height: u.height });
        }).observe(cell);
      }
    });
    const whole = () => { span = figure.span; zoomed.length = 0; redraw(); };
    figures.push(whole);
    still.after(grid);
    plots.forEach(p => p.u.setSize({ width: p.u.root.parentNode.clientWidth, height: p.u.height }));
    still.hidden = true;
  }

  // One bar for the page: variants to be switched on and off, and the way back from a zoom.
  function bar() {
    const box = document.createElement("div"), names = [...new Set(parts.map(([name]) => name))];
    box.className = "bar";
    if (names.length > 1) for (const name of names) {
      const label = document.createElement("label"), tick = document.createElement("input");
      tick.type = "checkbox";
      tick.checked = true;
      tick.onchange = () => parts.forEach(([other, show]) => { if (other === name) show(tick.checked); });
      label.append(tick, " " + name);
      box.append(label);
    }
    const back = document.createElement("button"), hint = document.createElement("span");
    back.textContent = "reset zoom";
    back.onclick = () => figures.forEach(whole => whole());
    hint.className = "hint";
    hint.textContent = matchMedia("(pointer: coarse)").matches
      ? "Touch a plot to read values, pull it apart with two fingers; touch a legend to hide a line."
      : "Drag over a plot to zoom, double click to go back; click a legend to hide a line.";
    box.append(back, hint);
    document.querySelector("h1").after(box);
  }

  for (const box of document.querySelectorAll("figure")) {
    // Where drawing fails, the static figure stays.
    try { build(box); } catch (e) { console.error(e); }
  }
  if (figures.length) bar();
})();
