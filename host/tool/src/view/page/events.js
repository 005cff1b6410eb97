"use strict";
/* The events of a machine, of all tenants or of one: ?tenant=NAME. */
const chosen = () => el("tenant").value;

function options(names) {
  const box = el("tenant"), known = new Set([...box.options].map(option => option.value));
  for (const name of names.filter(name => !known.has(name))) {
    const option = make("option", "", name);
    option.value = name;
    box.append(option);
  }
}

async function show() {
  const query = chosen() ? `?tenant=${encodeURIComponent(chosen())}` : "";
  const answer = await ask(`${BASE}events.json${query}`);
  if (!chosen()) options([...new Set(answer.events.map(event => event.tenant).filter(Boolean))].sort());
  eventLines("events", answer, 500, true);
  state(`live · ${clock(Date.now())}`, true);
}

const wish = new URLSearchParams(location.search).get("tenant");
if (wish) { options([wish]); el("tenant").value = wish; }
crumbs("the machine");
el("tenant").onchange = show;
again(2000, async () => { try { await show(); } catch (error) { state("the machine has ended, or the program that shows it has", false); } });
