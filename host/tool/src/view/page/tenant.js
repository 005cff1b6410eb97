"use strict";
/* The page of one tenant. */
const NAME = decodeURIComponent(location.pathname.slice(`${BASE}tenant/`.length));
const QUERY = `?tenant=${encodeURIComponent(NAME)}`, HERE = tenantPage(NAME);
const LINES_MAX = 1000;
const [FIRST, SECOND] = ["#3b82f6", "#d9a400"];
let samples = [];
const own = sample => sample.tenants[0] || null;
const of = value => sample => { const t = own(sample); return t && sample.uptime_s !== null ? value(t) : null; };

function charts() {
  const last = own(samples[samples.length - 1]), span = +el("span").value;
  const draw = (id, axis, series, more) => {
    chart(id, { samples, span, axis, height: 170, series, ...more });
    const names = el(`legend-${id.slice(6)}`);
    if (names) legend(names.id, series.map(one => one.name), name => series.find(one => one.name === name).colour);
  };
  const line = (name, colour, value, level) => ({ name, colour, value: of(value), level });
  const limit = last ? last.memory_limit_bytes : 0, held = Math.max(...samples.map(s => own(s) ? own(s).memory_bytes : 0), 1);
  const isNear = limit > 0 && limit < held * 4;
  el("memory-level").textContent = limit ? isNear ? "Dashed: its limit." : `Its limit of ${bytes(limit)} is beyond this chart.` : "";
  draw("chart-cpu", "percent", [line("processor", FIRST, t => t.cpu_percent)]);
  draw("chart-memory", "bytes", [line("memory", FIRST, t => t.memory_bytes, isNear ? limit : 0)]);
  draw("chart-disk", "rate", [line("read", FIRST, t => t.read_bytes_per_second), line("written", SECOND, t => t.written_bytes_per_second)]);
  draw("chart-link", "bits", [line("sent", FIRST, t => t.sent_bits_per_second), line("received", SECOND, t => t.received_bits_per_second)]);
  draw("chart-wait", "time", [line("wait", FIRST, t => t.queued_us)]);
  draw("chart-latency", "time", [line("half of the answers", FIRST, t => t.answers ? t.answers.median_ms * 1000 : null), line("99 of 100", SECOND, t => t.answers ? t.answers.p99_ms * 1000 : null)]);
}

function tiles(t) {
  if (!t) return;
  el("cpu").textContent = percent(t.cpu_percent);
  el("cpu-note").textContent = "of all cores";
  el("sent").textContent = bits(t.sent_bits_per_second);
  el("sent-note").textContent = t.entitled_percent ? `${percent(t.sent_percent)} of what customers send` : "";
  el("memory").textContent = bytes(t.memory_bytes);
  el("memory-note").textContent = t.memory_limit_bytes ? `${percent(t.memory_bytes * 100 / t.memory_limit_bytes)} of ${bytes(t.memory_limit_bytes)}` : "";
  el("latency").textContent = t.answers ? wait(t.answers.p99_ms * 1000) : "–";
  el("latency-note").textContent = t.answers ? `${t.answers.per_second.toFixed(1)} answers a second, half in ${wait(t.answers.median_ms * 1000)}` : "no answers at TCP now";
}

function figures(f) {
  const t = own(samples[samples.length - 1] || { tenants: [] }), h = f.has;
  el("how").textContent = plain(f.state || "the machine has not said how it is");
  el("how").className = f.state === "running" ? "good" : /^(starting|stopped|leaving|)$/.test(f.state) ? "dim" : "bad";
  troubles(f.troubles);
  facts("has", [
    ["share", h ? `${h.share} of ${h.shares}${t && t.entitled_percent ? `: entitled to ${percent(t.entitled_percent)}` : ""}` : ""],
    ["of those who want", t && t.entitled_now_percent ? `entitled to ${percent(t.entitled_now_percent)} of the link, gets ${percent(t.sent_percent)}` : t && t.entitled_percent ? "it sends nothing now" : ""],
    ["memory", h ? `${bytes(h.memory_bytes)} of at most ${bytes(h.memory_bytes_limit)}` : ""],
    ["most memory so far", h ? bytes(h.memory_bytes_max) : ""],
    ["if all want memory", h && h.memory_entitled_bytes ? `${bytes(h.memory_entitled_bytes)} are its own` : ""],
    ["each process", h && h.process_memory_bytes_limit ? `at most ${bytes(h.process_memory_bytes_limit)}` : ""],
    ["file cache", h ? `${bytes(h.cache_bytes)} of it; taken by reclaim so far: ${bytes(h.memory_reclaimed_bytes)}` : ""],
    ["out of memory", h && h.memory_failures ? `${h.memory_failures} times` : ""],
    ["threads", h ? `${h.threads}; processes started so far: ${h.processes_started}` : ""],
    ["started again", h && h.restarts ? `${h.restarts} times` : ""],
    ["frames dropped", h && h.dropped_frames ? String(h.dropped_frames) : ""],
    ["connections", h && h.connections_limit ? `at most ${h.connections_limit} from outside; refused: ${h.connections_refused}` : ""],
    ["image", f.image], ["ports", f.ports.join(", ")], ["volumes", f.volumes.join(", ")],
  ]);
  bill(f.bill);
  goal(f);
  processes(f);
}

function bill(b) {
  if (!b) return facts("bill", [["", "the machine has not said anything yet"]]);
  const cost = name => { const found = b.costs.find(([other]) => other === name); return found ? ` = ${money(found[1])} ${b.currency}` : ""; };
  facts("bill", [
    ["time", `${age(b.period_s)} since the machine's start`],
    ["CPU time", `${b.cpu_seconds.toFixed(3)} s, ${percent(b.of_machine_percent, 3)} of the machine${cost("core-hour")}`],
    ["cycles", `${b.cycles.toLocaleString("en")}, of them in user mode ${b.line.user_cycles.toLocaleString("en")}`],
    ...b.on_behalf.map(([service, s]) => [`spent by ${service}`, `${s.toFixed(3)} s of it`]),
    ["memory over time", `${bytes(b.line.memory_byte_seconds)} s${cost("gib-hour")}`],
    ["sent", bytes(b.line.sent_bytes) + cost("gib-sent")], ["received", bytes(b.line.received_bytes) + cost("gib-received")],
    ["read from disk", bytes(b.line.read_bytes) + cost("gib-read")], ["written to disk", bytes(b.line.written_bytes) + cost("gib-written")],
    ["sum", b.currency ? make("b", "", `${money(b.cost)} ${b.currency}`) : "no [prices] in the machine file"],
  ]);
}

function goal(f) {
  const g = f.goal, part = value => percent(value * 100);
  el("goal-card").hidden = !g;
  el("broker").textContent = plain(f.broker || "");
  if (g) facts("goal", [
    ["goal", g.goal || "none of its own"],
    ["measured", `${g.rate_per_s.toFixed(1)}/s${g.percentile_ms === null ? "" : `, ${g.percentile_ms.toFixed(1)} ms`}`],
    ["met", g.is_met === null ? "" : make("b", g.is_met ? "good" : "bad", g.is_met ? "✓ yes" : "✗ no")],
    ["processor", `uses ${part(g.used)}, holds ${part(g.held)}, gets ${part(g.part)}`],
    ["why", g.why],
    ["link", g.link ? `uses ${part(g.link.used)}, holds ${part(g.link.held)}, gets ${part(g.link.part)}: ${g.link.why}` : ""],
    ["overload", g.delay_ms === null ? "" : `a delay of ${g.delay_ms.toFixed(1)} ms`], ["strange", g.strange],
  ]);
}

function processes(f) {
  el("process-note").textContent = f.more_processes ? `and ${f.more_processes} more, less busy ones` : `${f.processes.length}`;
  table("processes", [["process", ["left", "program"], ["left", "state"], "of a core", ["p2", "threads"], "CPU time", ["p2", "of it user"], ["p3", "cycles"], "memory", ["p3", "messages"], ["p3", "mean wait"]],
    ...f.processes.map(p => [p.process ? String(p.process) : "–", ["left", p.name], ["left", p.state], percent(p.cpu_percent), ["p2", String(p.threads)], `${p.cpu_seconds.toFixed(3)} s`, ["p2", `${p.user_seconds.toFixed(3)} s`], ["p3", p.cycles.toLocaleString("en")], bytes(p.memory_bytes), ["p3", p.messages.toLocaleString("en")], ["p3", wait(p.queued_us)]])]);
}

let place = null;
async function log() {
  const box = el("log"), answer = await ask(`${HERE}/log.json${place === null ? "" : `?from=${place}`}`);
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  place = answer.next;
  const line = ([time, text]) => { const made = make("p", "", make("time", "", clock(Date.parse(time))), text); return made; };
  const lines = answer.lines.map(line);
  if (answer.is_cut) lines.unshift(make("p", "dim", "… earlier lines are not shown: gyre logs has them"));
  box.append(...lines);
  while (box.children.length > LINES_MAX) box.firstChild.remove();
  if (isAtEnd) box.scrollTop = box.scrollHeight;
  el("log-note").textContent = !box.children.length ? "it has written nothing" : isAtEnd ? "follows the end; scroll up to read" : "stopped while you read; scroll to the end to follow";
}

el("name").textContent = plain(NAME);
document.title = `${plain(NAME)} · Gyre`;
follow(QUERY, 600, all => { samples = all; tiles(own(all[all.length - 1])); charts(); });
again(1000, log);
again(1000, async () => {
  try { figures(await ask(`${HERE}/figures.json`)); } catch (error) {
    el("how").className = "bad";
    el("how").textContent = plain(error.message);
  }
});
again(2000, async () => eventLines("events", await ask(`${BASE}events.json${QUERY}`), 20, false));
el("span").onchange = () => samples.length && charts();
