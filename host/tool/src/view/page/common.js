"use strict";
/* All pages share this. Texts get into a page as text only; control characters and those that turn its direction are shown, not obeyed. */
const PALETTE = ["#d9a400", "#7f8ea3", "#b8693a", "#3b82f6", "#10b981", "#a855f7", "#ef4444", "#14b8a6"];
const OTHERS = { system: "#5d6470", infrastructure: "#7c3aed", scheduling: "#2563eb", interrupt: "#0891b2", unattributed: "#dc2626", idle: "transparent" };
const REST = "#9aa0a9";
const el = id => document.getElementById(id);
const plain = text => String(text).replace(/[\u0000-\u001f]/g, c => String.fromCharCode(0x2400 + c.charCodeAt(0))).replace(/[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");

/* An element with a class and children: texts or elements. */
function make(tag, kind, ...children) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  for (const child of children) made.append(child instanceof Node ? child : plain(child));
  return made;
}

function link(to, text) {
  const made = make("a", "", text);
  made.href = to;
  return made;
}

/* The folder of the machine that this page is about: "/" or "/machine/NAME/". */
const BASE = (/^\/machine\/[^/]+\//.exec(location.pathname) || ["/"])[0];
const tenantPage = name => `${BASE}tenant/${encodeURIComponent(name)}`;
const fullName = t => t.zone && t.name === "system" ? `${t.zone}:system` : t.name;

const scale = (value, step, units) => {
  let at = 0;
  while (value >= step * 0.9995 && at + 1 < units.length) { value /= step; at++; }
  return `${value.toFixed(at === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2)} ${units[at]}`;
};
const bits = value => scale(value, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]);
const bytes = value => scale(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const perSecond = value => `${bytes(value)}/s`;
const percent = (value, digits = 1) => `${value.toFixed(digits)} %`;
const wait = us => us < 1000 ? `${us.toFixed(1)} µs` : us < 1e6 ? `${(us / 1e3).toFixed(1)} ms` : `${(us / 1e6).toFixed(1)} s`;
const seconds = (cycles, bill) => `${(cycles / Math.max(bill.cycles_per_second, 1)).toFixed(3)} s`;
const age = s => s < 120 ? `${Math.max(0, Math.round(s))} s` : s < 7200 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`;
const money = value => value === 0 ? "0" : value >= 1 ? value.toFixed(2) : value.toPrecision(2);
const two = n => String(n).padStart(2, "0");
const clock = ms => { const d = new Date(ms); return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`; };
const day = ms => { const d = new Date(ms); return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`; };

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/* Does something now and again so many ms after it is done. */
async function again(ms, work) {
  try { await work(); } catch (error) { console.warn(error); }
  setTimeout(() => again(ms, work), ms);
}

function tip(event, text) {
  const box = el("tip");
  box.textContent = plain(text).replaceAll("\u240a", "\n");
  box.style.display = "block";
  box.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)) + "px";
  box.style.top = Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8) + "px";
}
const noTip = () => { el("tip").style.display = "none"; };

/* Fills a table: the first row is its head; a cell is a text, an element, or [class, text or element]. */
function table(id, rows, sums = []) {
  const cell = (tag, what) => Array.isArray(what) ? make(tag, what[0], what[1]) : make(tag, "", what);
  el(id).replaceChildren(...rows.map((row, index) => make("tr", index && sums.includes(row[0]) ? "sum" : "", ...row.map(what => cell(index ? "td" : "th", what)))));
}

/* Fills a list of names and values; those without a value are left out. */
function facts(id, pairs) {
  el(id).replaceChildren(...pairs.filter(([, value]) => value !== null && value !== "").flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
}

function troubles(list) {
  el("troubles").hidden = !list.length;
  el("troubles").replaceChildren(...list.map(text => make("p", "", text)));
}

const state = (text, on) => { el("state").textContent = plain(text); el("state").className = on ? "on dim" : "dim"; };

/* Follows the machine: `show(samples)` at each new one. Times of samples become wall clock times in `unix_ms`. */
function follow(query, keep, show) {
  let samples = [], zero = null;
  /* An answer that comes a little late is no silence: the seconds without it wait. */
  const settled = all => {
    const late = [...all].reverse().findIndex(s => s.uptime_s !== null);
    return late > 0 && late <= 3 ? all.slice(0, -late) : all;
  };
  const dated = sample => ({ ...sample, unix_ms: zero + sample.at_s * 1000 });
  async function start() {
    const history = await ask(`${BASE}history${query}`);
    el("name").textContent ||= plain(history.machine);
    crumbs(history.machine);
    const last = history.samples[history.samples.length - 1];
    if (last) zero = history.now_unix_ms - last.at_s * 1000;
    samples = history.samples.map(dated);
    if (history.ended) state(`the machine has ${history.ended.replace(/^has /, "")}`, false);
    if (samples.length) show(settled(samples));
  }
  const source = new EventSource(`${BASE}live${query}`);
  source.onopen = () => { state("live", true); start(); };
  source.onmessage = event => {
    const sample = JSON.parse(event.data);
    if (zero === null) zero = Date.now() - sample.at_s * 1000;
    samples = samples.filter(s => s.at_s < sample.at_s).slice(1 - keep).concat(dated(sample));
    state(`live · ${clock(samples[samples.length - 1].unix_ms)} · ${sample.uptime_s === null ? "its agent does not answer" : `up ${age(sample.uptime_s)}`}`, true);
    show(settled(samples));
  };
  source.onerror = async () => {
    try { await start(); } catch { state("the machine has ended, or the program that shows it has", false); }
  };
  addEventListener("resize", () => samples.length && show(settled(samples)));
}

/* The way back: all machines, this machine. */
function crumbs(machine) {
  const parts = [];
  if (BASE !== "/") parts.push(link("/", "all machines"));
  if (location.pathname !== BASE) parts.push(link(BASE, machine));
  if (el("nav")) el("nav").replaceChildren(...parts.flatMap((part, at) => at ? [" / ", part] : [part]));
}

/* Events as lines, the newest first; those of earlier runs are grey. */
function eventLines(id, answer, most, withTenant) {
  const line = event => {
    const at = Date.parse(event.time), whole = `${day(at)} ${clock(at)}`;
    const who = event.tenant ? link(tenantPage(event.tenant), event.tenant) : make("span", "dim", "machine");
    const made = make("li", at < (answer.started_unix_ms || 0) ? "earlier" : "", make("span", "dim", whole));
    if (withTenant) made.append(make("span", "", who));
    made.append(make("span", /fail|ended with|SIG|memory|unhealthy|about to start/.test(event.event) ? "bad" : "", event.event));
    return made;
  };
  const lines = answer.events.slice(-most).reverse().map(line);
  el(id).replaceChildren(...(lines.length ? lines : [make("li", "", make("span", "dim", "none yet"))]));
}
