"use strict";
/* The machines of this host. One that ends while the page is open is told above the list. */
let list = null, running = null;
const told = [];

function spark(values) {
  const svg = node("svg", { viewBox: "0 0 120 28", class: "spark", role: "img", "aria-label": "processor in the last minute, 0 to 100 %" });
  node("line", { x1: 0, x2: 120, y1: 27.5, y2: 27.5, stroke: "var(--line)" }, svg);
  const at = index => 120 - (values.length - 1 - index) * 2, points = values.map((value, index) => `${at(index)},${(27 - value * .26).toFixed(1)}`);
  if (points.length > 1) node("polyline", { points: points.join(" "), fill: "none", stroke: "#3b82f6", "stroke-width": 1.5 }, svg);
  return svg;
}

const stateOf = (m, now) => m.ended === null ? (m.answers ? `runs since ${age((now - m.started_unix_ms) / 1000)}` : "runs, does not answer") : `${m.ended}${m.ended_unix_ms ? `, ${age((now - m.ended_unix_ms) / 1000)} ago` : ""}`;

function row(m, now) {
  const name = make("span", "", link(`/machine/${encodeURIComponent(m.name)}/`, m.name), make("span", "sub p2", m.file.split("/").pop()));
  const runs = m.ended === null, mark = runs ? m.answers ? "good" : "bad" : "dim";
  const how = make("span", mark, stateOf(m, now));
  if (m.troubles.length) how.append(make("span", "sub bad", m.troubles.length === 1 ? m.troubles[0] : `${m.troubles.length} troubles: ${m.troubles[0]}`));
  const only = text => runs && m.answers ? text : "";
  return [["", name], ["wide", how], ["p2", only(`${m.running} of ${m.tenants}`)], only(`${m.busy_cores.toFixed(1)} of ${m.cores}`), ["p2", runs ? spark(m.chart) : ""], ["p2", only(bytes(m.memory_bytes))], ["p3", only(bits(m.sent_bits_per_second))], ["p3", only(bits(m.received_bits_per_second))]];
}

function draw() {
  const words = el("filter").value.toLowerCase(), shown = list.machines.filter(m => `${m.name} ${m.ended || "runs"}`.toLowerCase().includes(words));
  table("machines", [["machine", ["left", "state"], ["p2", "tenants run"], "cores in use", ["p2", "last minute"], ["p2", "memory"], ["p3", "sends"], ["p3", "receives"]], ...shown.map(m => row(m, list.now_unix_ms))]);
  [...el("machines").rows].slice(1).forEach((line, at) => { if (shown[at].ended !== null) line.className = "gone"; });
  el("older").textContent = !list.machines.length ? "No machine has run yet: gyre run FILE starts one." : list.older ? `${list.older} more ended before: gyre ls --all shows them.` : "";
}

async function look() {
  list = await ask("/machines.json");
  const now = new Map(list.machines.filter(m => m.ended === null).map(m => [m.name, m.started_unix_ms]));
  for (const [name, started] of running || []) {
    const m = list.machines.find(m => m.name === name);
    if (now.get(name) !== started) told.unshift(`${clock(list.now_unix_ms)}  machine ${name} ${m && m.ended !== null ? `has ${m.ended.replace(/^has /, "").replace(/^was killed/, "been killed")}` : "has ended and runs again"}`);
  }
  running = now;
  troubles(told.slice(0, 5));
  state(`live · ${clock(list.now_unix_ms)} · ${now.size} machine${now.size === 1 ? " runs" : "s run"}`, true);
  draw();
}

again(1000, async () => { try { await look(); } catch (error) { state("gyre page has ended", false); } });
el("filter").oninput = () => list && draw();
