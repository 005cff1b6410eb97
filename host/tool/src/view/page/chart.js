"use strict";
/* Line charts over wall clock time. Axes begin at 0; ticks stand at round numbers and at round times. */

function node(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = plain(text);
  if (parent) parent.appendChild(made);
  return made;
}

/* Units of an axis: the steps that are round there, and the words for a value. */
const AXES = {
  percent: { base: 10, round: [1, 2, 2.5, 5, 10], show: value => percent(value), tick: value => `${+value.toFixed(3)} %` },
  bits: { base: 10, round: [1, 2, 2.5, 5, 10], show: bits, tick: value => short(value, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]) },
  bytes: { base: 2, round: [1, 2], show: bytes, tick: value => short(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]) },
  rate: { base: 2, round: [1, 2], show: perSecond, tick: value => short(value, 1024, ["B/s", "KiB/s", "MiB/s", "GiB/s"]) },
  time: { base: 10, round: [1, 2, 2.5, 5, 10], show: wait, tick: value => short(value, 1000, ["µs", "ms", "s"]) },
};
const short = (value, step, units) => {
  let at = 0;
  while (value >= step && at + 1 < units.length) { value /= step; at++; }
  return `${+value.toFixed(2)} ${units[at]}`;
};

/* The step between ticks: at most `most` of them up to `high`, at round numbers. */
function stepOf(high, most, { base, round }) {
  const power = base ** Math.floor(Math.log(high / most) / Math.log(base));
  return round.concat(round.map(r => r * base)).map(r => r * power).find(step => high / step <= most) || high;
}

const GAP_MS = 4500;
const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300, 600];

/*
 * samples: with unix_ms. series: { name, colour, value(sample), level? }, a level is drawn dashed.
 * Values that are null for some seconds leave a gap.
 */
function chart(id, { samples, span, series, axis, height = 190, levels = true }) {
  const holder = el(id), width = Math.max(holder.clientWidth, 240), left = 66, right = 10, top = 8, bottom = 22;
  const kind = AXES[axis], end = samples[samples.length - 1].unix_ms;
  const shown = samples.filter(s => s.unix_ms >= end - span * 1000);
  const begin = Math.min(shown[0].unix_ms, end - 10000);
  const values = series.flatMap(one => shown.map(s => one.value(s) || 0).concat(levels && one.level || 0));
  const floor = { percent: 1, bits: 1000, bytes: 1024, rate: 1024, time: 1 }[axis];
  const high0 = Math.max(...values, floor) * 1.02, step = stepOf(high0, 4, kind), high = Math.ceil(high0 / step) * step;
  const x = ms => left + (ms - begin) / (end - begin) * (width - left - right);
  const y = v => top + (1 - v / high) * (height - top - bottom);
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": holder.dataset.title || id });
  for (let k = 0; k * step <= high * 1.001; k++) {
    node("line", { x1: left, x2: width - right, y1: y(k * step), y2: y(k * step), stroke: "var(--line)" }, svg);
    node("text", { x: left - 7, y: y(k * step) + 4, "text-anchor": "end", class: "tick" }, svg, kind.tick(k * step));
  }
  const room = Math.max(2, Math.floor((width - left) / 72));
  const apart = (TIME_STEPS.find(t => (end - begin) / 1000 / t <= room) || 600) * 1000;
  for (let at = Math.ceil(begin / apart) * apart; at <= end; at += apart) {
    node("line", { x1: x(at), x2: x(at), y1: height - bottom, y2: height - bottom + 4, stroke: "var(--dim)" }, svg);
    const edge = x(at) < left + 24 ? "start" : x(at) > width - right - 24 ? "end" : "middle";
    node("text", { x: x(at), y: height - 5, "text-anchor": edge, class: "time" }, svg, clock(at));
  }
  for (const one of series) {
    if (levels && one.level) node("line", { x1: left, x2: width - right, y1: y(one.level), y2: y(one.level), stroke: one.colour, "stroke-dasharray": "5 5", opacity: .65 }, svg);
    let points = [], before = null;
    const draw = () => { if (points.length) node("polyline", { points: points.join(" "), fill: "none", stroke: one.colour, "stroke-width": one.thin ? 1.5 : 2, "stroke-linejoin": "round", "stroke-dasharray": one.dash || "none" }, svg); points = []; };
    for (const s of shown) {
      const value = one.value(s);
      if (value === null || value === undefined) continue;
      if (before && s.unix_ms - before > GAP_MS) draw();
      points.push(`${x(s.unix_ms).toFixed(1)},${y(value).toFixed(1)}`);
      before = s.unix_ms;
    }
    draw();
  }
  const rule = node("line", { y1: top, y2: height - bottom, stroke: "var(--dim)", visibility: "hidden" }, svg);
  svg.onpointermove = event => {
    const box = svg.getBoundingClientRect(), at = begin + ((event.clientX - box.left) * width / box.width - left) / (width - left - right) * (end - begin);
    const sample = shown.reduce((a, b) => Math.abs(b.unix_ms - at) < Math.abs(a.unix_ms - at) ? b : a);
    rule.setAttribute("x1", x(sample.unix_ms)); rule.setAttribute("x2", x(sample.unix_ms)); rule.setAttribute("visibility", "visible");
    const lines = series.map(one => [one.name, one.value(sample)]).filter(([, value]) => value !== null && value !== undefined);
    tip(event, [clock(sample.unix_ms), ...lines.sort((a, b) => b[1] - a[1]).map(([name, value]) => `${name}  ${kind.show(value)}`)].join("\n"));
  };
  svg.onpointerleave = () => { rule.setAttribute("visibility", "hidden"); noTip(); };
  holder.replaceChildren(svg);
}

/* Keys of colours; `toggle(name)` makes them buttons. */
function legend(id, names, colour, { off = new Set(), toggle } = {}) {
  el(id).replaceChildren(...names.map(name => {
    const key = make(toggle ? "button" : "span", off.has(name) ? "key off" : "key", name);
    if (toggle) key.onclick = () => toggle(name);
    key.style.setProperty("--c", colour(name));
    return key;
  }));
}
