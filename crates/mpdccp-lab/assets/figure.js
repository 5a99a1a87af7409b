// Shows the values under the pointer, zooms all panels of a figure along the horizontal axis, and hides lines and
// variants.
(() => {
  "use strict";
  const all = (of, what) => [...of.querySelectorAll(what)], four = v => String(+v.toPrecision(4));
  const svg = (name, attributes) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    return e;
  };
  // Returns a function that converts a position on an axis (0 to 1) to the value there.
  const axis = text => {
    const [from, to, log] = text.split(" ");
    return s => log === "true" ? from * (to / from) ** s : +from + (to - from) * s;
  };
  const tip = document.body.appendChild(Object.assign(document.createElement("div"), { className: "tip", hidden: true }));
  const resets = [];

  // The points of all series of a panel, in the plot's own units. They are read when they are first needed.
  function points(panel) {
    return panel.known ||= all(panel, ".key").map(key => {
      const paths = all(panel.querySelector(".plot"), `[data-s="${key.dataset.s}"]:not(.error, .hole)`);
      const numbers = paths.flatMap(p => p.getAttribute("d").replaceAll("h0", " ").match(/[\d.]+/g)).map(Number);
      return { name: key.textContent, paths, at: numbers.flatMap((v, i) => i % 2 ? [] : [[v, numbers[i + 1]]]) };
    });
  }

  for (const figure of all(document, ".rows")) {
    const panels = all(figure, ".panel"), plots = panels.map(p => p.querySelector(".plot")), x = axis(figure.dataset.span);
    if (!plots.length) continue;
    const { width: W, height: H } = plots[0].viewBox.baseVal, left = +plots[0].getAttribute("x");
    const still = panels.map(p => p.querySelector(".ticks").innerHTML);
    const cursors = plots.map(p => p.appendChild(svg("path", { class: "cursor" })));
    const marked = plots.map(p => p.appendChild(svg("rect", { class: "cursor", height: H, "fill-opacity": .2 })));
    let from = null, view = [0, W];
    const where = e => {
      const plot = e.currentTarget.querySelector(".plot");
      const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(plot.getScreenCTM().inverse());
      return Math.min(Math.max(at.x, view[0]), view[0] + view[1]);
    };
    const zoom = (start, width) => {
      view = [start, width];
      plots.forEach(p => p.setAttribute("viewBox", `${start} 0 ${width} ${H}`));
      const whole = width === W;
      panels.forEach((p, i) => {
        const ticks = p.querySelector(".ticks");
        all(p, ".words").forEach(w => { w.toggleAttribute("hidden", !whole); });
        if (whole) { ticks.innerHTML = still[i]; return; }
        const y = ticks.firstElementChild.getAttribute("y");
        ticks.replaceChildren(...[0, .25, .5, .75, 1].map(s => {
          const text = svg("text", { class: "x", x: left + s * W, y });
          text.textContent = four(x((start + s * width) / W));
          return text;
        }));
      });
    };
    resets.push(() => zoom(0, W));
    const leave = () => {
      tip.hidden = true;
      from = null;
      [...cursors, ...marked].forEach(c => { c.setAttribute("visibility", "hidden"); });
    };
    for (const panel of panels) {
      const y = axis(panel.dataset.y);
      panel.addEventListener("pointerdown", e => { if (!e.target.closest(".key")) from = where(e); });
      panel.addEventListener("pointermove", e => {
        const at = where(e), near = view[1] / 40;
        cursors.forEach(c => { c.setAttribute("d", `M${at} 0V${H}`); c.setAttribute("visibility", "visible"); });
        marked.forEach(m => {
          m.setAttribute("visibility", from === null ? "hidden" : "visible");
          m.setAttribute("x", Math.min(at, from));
          m.setAttribute("width", Math.abs(at - from));
        });
        const lines = [`${figure.dataset.x}: ${four(x(at / W))}`];
        for (const s of points(panel)) {
          const best = s.at.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a, [Infinity]);
          if (Math.abs(best[0] - at) < near && !s.paths[0].hasAttribute("hidden")) lines.push(`${s.name}: ${four(y(1 - best[1] / H))}`);
        }
        tip.textContent = lines.join("\n");
        tip.hidden = false;
        tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 4) + "px";
        tip.style.top = e.clientY + 14 + "px";
      });
      panel.addEventListener("pointerup", e => {
        const at = where(e), start = from;
        leave();
        if (start !== null && Math.abs(at - start) > view[1] / 50) zoom(Math.min(at, start), Math.abs(at - start));
      });
      panel.addEventListener("pointerleave", leave);
      panel.addEventListener("pointercancel", leave);
      panel.addEventListener("dblclick", () => zoom(0, W));
      all(panel, ".key").forEach(key => key.addEventListener("click", () => {
        const off = key.classList.toggle("off");
        all(panel, `.plot [data-s="${key.dataset.s}"]`).forEach(p => p.toggleAttribute("hidden", off));
      }));
    }
  }
  if (!resets.length) return;

  // A bar at the top of the page, with checkboxes that show and hide variants, and a button that resets the zoom.
  const bar = Object.assign(document.createElement("div"), { className: "bar" });
  const names = [...new Set(all(document, "[data-variant]").map(e => e.dataset.variant))];
  if (names.length > 1) for (const name of names) {
    const label = document.createElement("label"), tick = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
    tick.onchange = () => all(document, "[data-variant]").filter(e => e.dataset.variant === name).forEach(e => e.toggleAttribute("hidden", !tick.checked));
    label.append(tick, " " + name);
    bar.append(label);
  }
  const back = Object.assign(document.createElement("button"), { textContent: "reset zoom", onclick: () => resets.forEach(r => r()) });
  const hint = Object.assign(document.createElement("span"), { className: "hint", textContent: "Drag across a plot to zoom, double click to go back; click a legend to hide a line." });
  bar.append(back, hint);
  document.querySelector("h1").after(bar);
})();
