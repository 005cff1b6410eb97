"use strict";
/* The page of a machine. With many tenants charts show those that use most, or those that the user picked, and the rest together. */
const SECONDS = 120, PICKED_MAX = 8, PICK_AGAIN_MS = 15000, PICK_FIRST_MS = 3000, MANY = 12;
let samples = [], order = null, hidden = new Set(), wanted = null, picked = [], pickedAt = 0;
const slots = new Map();

const isCustomer = t => t.entitled_percent > 0;
const use = t => t.cpu_percent + t.sent_percent;

/* Those that charts show by name: all, the user's, or those that used most in the last minute. */
function pick() {
  const last = samples[samples.length - 1], all = last.tenants.filter(isCustomer).map(fullName);
  if (all.length <= PICKED_MAX) picked = all;
  else if (wanted) picked = all.filter(name => wanted.has(name));
  else if (Date.now() - pickedAt > (samples.length < 20 ? PICK_FIRST_MS : PICK_AGAIN_MS)) {
    const sums = new Map(all.map(name => [name, 0]));
    for (const s of samples.slice(-60)) for (const t of s.tenants) if (sums.has(fullName(t))) sums.set(fullName(t), sums.get(fullName(t)) + use(t));
    picked = [...sums].sort((a, b) => b[1] - a[1]).slice(0, PICKED_MAX).map(([name]) => name);
    pickedAt = Date.now();
  }
  for (const name of [...slots.keys()]) if (!picked.includes(name)) slots.delete(name);
  for (const name of picked) if (!slots.has(name)) {
    const taken = new Set(slots.values());
    slots.set(name, PALETTE.findIndex((_, at) => !taken.has(at)));
  }
}
const colour = name => slots.has(name) ? PALETTE[slots.get(name)] : OTHERS[name] || REST;

/* The lines of a chart: those picked, the system tenant if it is wanted, and the rest by `rest(values)`. While the machine's agent is silent
   only what is counted on the wire is known: other lines have a gap. */
function lines(value, { level, system = true, wire = false, rest }) {
  const last = samples[samples.length - 1], names = last.tenants.filter(t => system || isCustomer(t)).map(fullName);
  const shown = names.filter(name => (slots.has(name) || !isCustomer(find(last, name))) && !hidden.has(name));
  const others = names.filter(name => !slots.has(name) && isCustomer(find(last, name)));
  const of = (s, name) => { const t = find(s, name); return t && (s.uptime_s !== null || wire && t.sent_bits_per_second > 0) ? value(t) : null; };
  const all = shown.map(name => ({ name, colour: colour(name), value: s => of(s, name), level: level && level(find(last, name)) }));
  if (others.length && rest) all.push({ name: `others, ${rest === most ? "worst" : "mean"}`, colour: REST, dash: "2 3", value: s => rest(others.map(name => of(s, name)).filter(v => v !== null)) });
  return all;
}
const find = (sample, name) => { sample.byName ||= new Map(sample.tenants.map(t => [fullName(t), t])); return sample.byName.get(name); };
const sum = values => values.reduce((a, b) => a + b, 0);
const mean = values => values.length ? sum(values) / values.length : null;
const most = values => values.length ? Math.max(...values) : null;

function charts() {
  const draw = (id, axis, value, more = {}) => chart(id, { samples, span: SECONDS, axis, series: lines(value, { rest: mean, ...more }), ...more.look });
  draw("chart-link", "percent", t => t.sent_percent, { system: false, wire: true, level: t => t.entitled_percent, look: { height: 230 } });
  draw("chart-cpu", "percent", t => t.cpu_percent);
  draw("chart-rate", "bits", t => t.sent_bits_per_second, { system: false, wire: true });
  draw("chart-memory", "bytes", t => t.memory_bytes);
  draw("chart-disk", "rate", t => t.read_bytes_per_second + t.written_bytes_per_second);
  draw("chart-wait", "time", t => t.queued_us);
  draw("chart-latency", "time", t => t.answers ? t.answers.p99_ms * 1000 : null, { system: false, rest: most });
  const toggle = name => { hidden.has(name) ? hidden.delete(name) : hidden.add(name); draw_all(); };
  const last = samples[samples.length - 1], systems = last.tenants.map(fullName).filter(name => name in OTHERS);
  legend("legend", [...picked, ...systems], colour, { off: hidden, toggle });
  const customers = last.tenants.filter(isCustomer).length;
  el("picked").textContent = customers <= PICKED_MAX ? "" : wanted ? `${picked.length} of ${customers} tenants, as picked below; dotted: the mean of the others (latency: the worst).` : `The ${PICKED_MAX} of ${customers} tenants that use most; dotted: the mean of the others (latency: the worst). The marks in the table pick others.`;
}

/* Columns of the tenants' table: head, class, the value that sorts, the cell. Those of the agent are empty while it is silent. */
const OF_AGENT = ["state", "CPU", "memory", "limit", "disk", "mean wait"];
const COLUMNS = [
  ["tenant", "", t => t.name, t => nameCell(t)],
  ["state", "state", t => t.state, t => t.state],
  ["entitled", "p2", t => t.entitled_percent, t => isCustomer(t) ? percent(t.entitled_percent) : ""],
  ["of those who want", "p3", t => t.entitled_now_percent, t => t.entitled_now_percent ? percent(t.entitled_now_percent) : ""],
  ["gets", "p2", t => t.sent_percent, t => isCustomer(t) ? percent(t.sent_percent) : ""],
  ["sends", "p3", t => t.sent_bits_per_second, t => bits(t.sent_bits_per_second)],
  ["receives", "p3", t => t.received_bits_per_second, t => bits(t.received_bits_per_second)],
  ["CPU", "", t => t.cpu_percent, t => percent(t.cpu_percent)],
  ["memory", "", t => t.memory_bytes, t => bytes(t.memory_bytes)],
  ["limit", "p3", t => t.memory_limit_bytes, t => bytes(t.memory_limit_bytes)],
  ["disk", "p3", t => t.read_bytes_per_second + t.written_bytes_per_second, t => perSecond(t.read_bytes_per_second + t.written_bytes_per_second)],
  ["mean wait", "p2", t => t.queued_us, t => wait(t.queued_us)],
  ["latency", "p2", t => t.answers ? t.answers.p99_ms : 0, t => t.answers ? wait(t.answers.p99_ms * 1000) : ""],
];

function nameCell(t) {
  const name = fullName(t), cell = make("span", "");
  const key = make("button", slots.has(name) ? "key" : "key off", "");
  key.title = "show it in the charts, or not"; key.ariaLabel = `${name} in the charts`;
  key.style.setProperty("--c", slots.has(name) ? colour(name) : REST);
  key.onclick = () => {
    wanted ||= new Set(picked);
    if (wanted.has(name)) wanted.delete(name); else if (wanted.size < PICKED_MAX) wanted.add(name);
    draw_all();
  };
  if (isCustomer(t) && samples[samples.length - 1].tenants.length > PICKED_MAX + 1) cell.append(key);
  cell.append(link(tenantPage(name), t.zone && name === t.name ? `${t.zone}: ${t.name}` : name));
  return cell;
}

function tenantTable(last) {
  const words = el("filter").value.toLowerCase(), all = last.tenants;
  order ||= all.length > MANY ? { column: COLUMNS.findIndex(([head]) => head === "CPU"), down: true } : { column: -1, down: true };
  let rows = all.filter(t => `${t.zone || ""} ${t.name} ${t.state}`.toLowerCase().includes(words));
  el("count").textContent = rows.length < all.length ? `${rows.length} of ${all.length}` : `${all.length}, the system tenant included`;
  el("more-columns").textContent = innerWidth <= 860 ? "A wider window shows more columns." : "";
  if (order.column >= 0) {
    const value = COLUMNS[order.column][2], sign = order.down ? -1 : 1;
    rows = [...rows].sort((a, b) => sign * (typeof value(a) === "string" ? value(a).localeCompare(value(b)) : value(a) - value(b)));
  }
  const mark = index => index === order.column ? (order.down ? " ↓" : " ↑") : "";
  table("tenants", [COLUMNS.map(([head, kind], index) => [`sort ${kind}`, head + mark(index)]), ...rows.map(t => COLUMNS.map(([head, kind, , cell]) => [kind, last.uptime_s === null && OF_AGENT.includes(head) ? "–" : cell(t)]))]);
  el("tenants").querySelectorAll("th").forEach((head, index) => {
    head.onclick = () => { order = { column: index, down: order.column === index ? !order.down : index > 1 }; draw_all(); };
  });
  el("tenants").querySelectorAll("td.state").forEach(cell => { cell.title = cell.textContent; cell.classList.add(/^(running|)$/.test(cell.textContent) ? "good" : cell.textContent === "–" ? "dim" : /^(starting|stopped|leaving)/.test(cell.textContent) ? "dim" : "bad"); });
}

function cores(sample) {
  const seen = new Map();
  el("cores").replaceChildren(...sample.cores.map(core => {
    const bar = make("div", "");
    for (const [part, share] of core.parts) {
      const piece = document.createElement("i");
      piece.style.width = share + "%"; piece.style.background = colour(part);
      piece.onpointermove = event => tip(event, `${part}  ${percent(share, 3)}`);
      piece.onpointerleave = noTip;
      bar.append(piece);
      seen.set(part, (seen.get(part) || 0) + share);
    }
    const idle = (core.parts.find(([part]) => part === "idle") || [0, 0])[1];
    return Object.assign(make("div", "core", make("span", "dim", core.zone ? `${core.zone} ${core.core}` : `core ${core.core}`), bar, make("span", "", percent(100 - idle))));
  }));
  const known = [...seen.keys()].filter(name => name !== "idle" && (slots.has(name) || name in OTHERS));
  legend("core-legend", [...known, ...([...seen.keys()].some(name => !slots.has(name) && !(name in OTHERS)) ? ["other tenants"] : []), "idle"], name => name === "idle" ? "var(--track)" : colour(name));
}

function bill(sample) {
  const b = sample.bill;
  const lines = b.tenants.map(t => [t.tenant, seconds(t.cycles, b), percent(t.cycles * 100 / b.machine_cycles, 3), ["p2", bytes(t.sent_bytes)], ["p3", bytes(t.received_bytes)], ["p3", bytes(t.read_bytes)], ["p3", bytes(t.written_bytes)], ["p2", bytes(t.memory_bytes_max)], ["p3", wait(t.queued_ns / 1e3 / Math.max(t.messages, 1))]]);
  const part = (name, cycles) => [name, seconds(cycles, b), percent(cycles * 100 / b.machine_cycles, 3), ["p2", ""], ["p3", ""], ["p3", ""], ["p3", ""], ["p2", ""], ["p3", ""]];
  table("bill", [["", "CPU time", "of machine", ["p2", "sent"], ["p3", "received"], ["p3", "disk read"], ["p3", "written"], ["p2", "most memory"], ["p3", "mean wait"]], ...lines,
    part("sum of tenants", b.tenant_cycles), part("infrastructure", b.infrastructure_cycles), part("scheduling", b.scheduling_cycles),
    part("interrupt", b.interrupt_cycles), part("idle", b.idle_cycles), part("unattributed", b.unattributed_cycles), part("machine", b.machine_cycles)],
    ["sum of tenants", "machine"]);
  const all = [b.tenant_cycles, b.infrastructure_cycles, b.scheduling_cycles, b.interrupt_cycles, b.idle_cycles, b.unattributed_cycles];
  el("sum").textContent = `${all.map(n => n.toLocaleString("en")).join(" + ")} = ${b.machine_cycles.toLocaleString("en")} cycles  `;
  el("sum").append(make("b", b.difference_cycles === 0 ? "good" : "bad", b.difference_cycles === 0 ? "✓ adds up" : `✗ off by ${b.difference_cycles}`));
}

function goals(last) {
  const shown = last.goals, part = value => percent(value * 100);
  el("goals-card").hidden = !shown;
  el("goals-state").textContent = shown ? plain(shown.state) : "";
  const uses = held => `uses ${part(held.used)}, holds ${part(held.held)}, gets ${part(held.part)}`;
  const why = g => [g.why, g.link && `of the link it ${uses(g.link)}: ${g.link.why}`,
    g.delay_ms !== null && `its overload controller keeps a delay of ${g.delay_ms.toFixed(1)} ms`, g.strange].filter(Boolean).join("; ");
  const met = g => [g.is_met === null ? "" : g.is_met ? "good" : "bad", g.is_met === null ? "" : g.is_met ? "✓" : "✗"];
  table("goals", [["", ["p2", "goal"], "measured", "met", ["p2", "uses"], ["p2", "holds"], ["p2", "gets"], ["left", "why"]],
    ...(shown ? shown.lines : []).map(g => [link(tenantPage(g.tenant), g.tenant), ["p2", g.goal], `${g.rate_per_s.toFixed(1)}/s${g.percentile_ms === null ? "" : `, ${g.percentile_ms.toFixed(1)} ms`}`, met(g), ["p2", part(g.used)], ["p2", part(g.held)], ["p2", part(g.part)], ["wide", why(g)]])]);
}

function zones(last) {
  const all = last.zones || [];
  el("zones-card").hidden = !all.length;
  table("zones", [["", ["left", "state"], "cores", "memory", "up for", "restarts", "crashes", "CPU time", ["left", "last line of its console"]],
    ...all.map(z => [z.name, ["left", z.state], String(z.cores), bytes(z.memory_bytes), z.cores ? age(z.uptime_s) : "", String(z.restarts), String(z.crashed), z.bill ? seconds(z.bill.machine_cycles - z.bill.idle_cycles, z.bill) : "", ["wide", z.last_line]])]);
}

function tiles(last) {
  el("link").textContent = bits(last.sent_bits_per_second);
  el("link-note").textContent = last.link_bits_per_second ? `${percent(last.sent_bits_per_second * 100 / last.link_bits_per_second)} of ${bits(last.link_bits_per_second)}` : `receiving ${bits(last.received_bits_per_second)}`;
  if (last.uptime_s === null) {
    for (const id of ["running", "memory", "busy"]) { el(id).textContent = "–"; el(`${id}-note`).textContent = ""; }
    el("busy-note").textContent = "the machine's agent does not answer";
    return;
  }
  const customers = last.tenants.filter(isCustomer), running = customers.filter(t => t.state === "running" || t.state === "");
  el("running").textContent = `${running.length} of ${customers.length}`;
  const others = [...new Set(customers.filter(t => !running.includes(t)).map(t => t.state.split(/[:(]/)[0].trim()))];
  el("running-note").textContent = plain(others.slice(0, 3).join(", ")) || "all";
  el("memory").textContent = bytes(sum(last.tenants.map(t => t.memory_bytes)));
  el("memory-note").textContent = `${last.tenants.filter(t => t.memory_limit_bytes && t.memory_bytes > t.memory_limit_bytes * 0.9).length} near a limit`;
  const idle = last.cores.map(core => (core.parts.find(([part]) => part === "idle") || [0, 0])[1]);
  el("busy").textContent = percent(100 - sum(idle) / Math.max(idle.length, 1));
  el("busy-note").textContent = `not idle, of ${last.cores.length} core${last.cores.length === 1 ? "" : "s"}`;
}

function draw_all() {
  const last = samples[samples.length - 1];
  if (!last) return;
  pick();
  tiles(last);
  charts();
  troubles(last.troubles || []);
  tenantTable(last);
  zones(last);
  goals(last);
  if (last.bill) { cores(last); bill(last); }
}

document.title = "Gyre";
follow("", 150, all => { samples = all; document.title = `${el("name").textContent} · Gyre`; draw_all(); });
again(2000, async () => eventLines("events", await ask(`${BASE}events.json`), 6, true));
el("filter").oninput = draw_all;
