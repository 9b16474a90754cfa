// The dashboard: keeps what the coordinator tells, and shows it. What peers and operators wrote
// becomes text nodes, never markup.

import {LossChart, TimeChart} from "/charts.js";
import * as figures from "/figures.js";
import {peerFigures} from "/listed.js";

const SILENT_AFTER = 3000;   // a coordinator that lives says so every second
const REOPEN_AFTER = 10000;  // a line that says nothing for so long is given up
const EVENTS_KEPT = 300;
const FIND_FROM = 12;  // so many peers want a field to find one

const byId = (id) => document.getElementById(id);

const known = {
  run: null,  // the newest status, without lists
  rounds: new Map(),
  evaluations: new Map(),
  events: [],
  lastId: "",
  heard: 0,         // performance.now() of the newest word from the coordinator
  taken: 0,         // the same of the newest status
  takenAt: null,    // the wall clock then
  age: 0,           // seconds: how old the status was when we were last told
  other: "",        // the run that answers here instead of the one that the page began with
};

// -- small things

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Makes the children of `parent` those of `items`, and keeps the elements of keys that stay.
function keep(parent, items, keyOf, create, update) {
  const there = new Map();
  for (const child of parent.children) there.set(child.dataset.key, child);
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let element = there.get(key);
    if (!element) {
      element = create(item);
      element.dataset.key = key;
    }
    there.delete(key);
    update(element, item);
    if (element === at) {
      at = at.nextElementSibling;
    } else {
      parent.insertBefore(element, at);
    }
  }
  for (const element of there.values()) element.remove();
}

// -- what the coordinator tells

function take(news) {
  if (!news.run_id) return;
  known.other = known.run && known.run.run_id !== news.run_id ? news.run_id : "";
  if (known.other) return;  // whoever looks on would take its figures for the run's
  for (const round of news.rounds) known.rounds.set(round.version, round);
  for (const one of news.evaluations) known.evaluations.set(one.version, one);
  if (news.events.length > 0) {
    const time = news.unix_seconds || Date.now() / 1000;
    for (const event of news.events) known.events.unshift({text: event, time});
    known.events.length = Math.min(known.events.length, EVENTS_KEPT);
  }
  const changed = news.rounds.length + news.evaluations.length > 0 || !known.run;
  const told = {...news};
  delete told.rounds;
  delete told.evaluations;
  delete told.events;
  known.run = told;
  known.taken = performance.now();
  known.takenAt = Date.now() / 1000;
  known.age = 0;
  showAll(changed, news.events.length > 0);
}

let source = null;
let reopening = 0;

function open() {
  clearTimeout(reopening);
  if (source) source.close();
  source = new EventSource(`/api/events?last=${encodeURIComponent(known.lastId)}`);
  const heard = () => {
    known.heard = performance.now();
    showNews();
  };
  source.addEventListener("run", (event) => {
    known.heard = performance.now();
    take(JSON.parse(event.data));
    if (event.lastEventId && !known.other) known.lastId = event.lastEventId;
    showNews();
  });
  source.addEventListener("beat", (event) => {
    if (!known.other) known.age = Number(event.data) || 0;
    heard();
  });
  source.onerror = () => {
    showNews();
    // The browser dials again by itself, unless it was answered with something else.
    if (source.readyState === EventSource.CLOSED) {
      clearTimeout(reopening);
      reopening = setTimeout(open, 1000);
    }
  };
}

// -- whether it is heard

function stateOfLine() {
  if (known.heard === 0) return "connecting";
  const silent = performance.now() - known.heard;
  const broken = !source || source.readyState !== EventSource.OPEN;
  if (silent > SILENT_AFTER || (broken && silent > 1500)) return "gone";
  if (known.other) return "other";
  return known.age > 5 ? "old" : "live";
}

function showNews() {
  const state = stateOfLine();
  const sealed = known.run && known.run.seal;
  const ended = sealed && state === "gone";
  document.body.dataset.state = ended ? "ended" : state;
  const alert = byId("alert");
  let says = "";
  if (ended) {
    says = "The run is sealed, and its coordinator has ended. These are its last figures.";
  } else if (state === "gone") {
    const ago = known.taken ? (performance.now() - known.taken) / 1000 : 0;
    says = "The coordinator does not answer. " +
        (known.run ? `The figures are ${figures.seconds(ago)} old, from ` +
             `${new Date(1000 * known.takenAt).toLocaleTimeString()}. ` : "") +
        "Peers train on; this page goes on by itself when it is back.";
  } else if (state === "other") {
    says = `Another run answers at this address: ${known.other}. Reload to see it.`;
  } else if (state === "old") {
    says = `The coordinator is slow: its figures are ${figures.seconds(known.age)} old.`;
  }
  setText(alert, says);
  alert.hidden = says === "";
  alert.classList.toggle("calm", Boolean(ended));
  const words = {connecting: "Connecting to the coordinator", live: "Live", old: "Figures are old",
                 gone: "Coordinator gone", other: "Another run"};
  setText(byId("news-text"), ended ? "Ended" : words[state]);
}

function watchLine() {
  showNews();
  const silent = performance.now() - Math.max(known.heard, openedAt);
  if (silent > REOPEN_AFTER) {
    openedAt = performance.now();
    open();
  }
}

// -- the run

const WORDS = {
  waiting: "Waiting", initializing: "Initializing", training: "Training",
  exchanging: "Exchanging", evaluating: "Evaluating", paused: "Paused", sealing: "Sealing",
  sealed: "Sealed",
};

function showPhase(run) {
  const phase = byId("phase");
  setText(phase, WORDS[run.phase] || run.phase);
  phase.classList.toggle("waits", run.phase === "waiting" || run.phase === "paused");
  phase.classList.toggle("done", run.phase === "sealed");
  let reason = run.reason;
  if (!reason && run.stopping) {
    reason = `It ends at the newest round${run.stopped_because ? `: ${run.stopped_because}` : ""}`;
  } else if (!reason && run.phase === "sealed" && run.stopped_because) {
    reason = run.stopped_because;
  }
  setText(byId("reason"), reason);
  const done = run.spec.rounds > 0 ? Math.min(1, run.version / run.spec.rounds) : 0;
  byId("progress-bar").style.width = `${100 * done}%`;
  const progress = byId("progress");
  progress.setAttribute("aria-valuenow", run.version);
  progress.setAttribute("aria-valuemax", run.spec.rounds);
}

function newestOf(map, name) {
  let best = null;
  for (const row of map.values()) {
    if (row[name] !== null && (!best || row.version > best.version)) best = row;
  }
  return best;
}

// Of the newest round that tells it; why the run has its mode is shown beside the pointer.
function showUtilisation(run) {
  const round = newestOf(known.rounds, "utilisation");
  setText(byId("used"), figures.share(round ? usedOf(round) : null));
  const mode = run.spec.mode ? run.spec.mode.kind : "sync";
  const {hidden_bytes: hidden, waited_bytes: waited} = (round && round.utilisation) || {};
  setText(byId("used-note"), hidden + waited > 0
      ? `${mode}; ${figures.share(hidden / (hidden + waited))} of the bytes while training` : mode);
  byId("used").title = run.mode_because || "";
}

function showTiles(run) {
  setText(byId("round"), figures.count(run.version));
  setText(byId("round-note"), `of ${figures.count(run.spec.rounds)}`);
  const left = run.predicted_end_unix_seconds ?
      run.predicted_end_unix_seconds - (run.unix_seconds || known.takenAt) : NaN;
  if (run.seal) {
    setText(byId("ends"), "sealed");
    setText(byId("ends-note"), `at round ${figures.count(run.seal.version)}`);
  } else {
    setText(byId("ends"), Number.isFinite(left) ? figures.seconds(Math.max(0, left)) : figures.none);
    setText(byId("ends-note"), Number.isFinite(left) ?
        `from now, at ${figures.clock(run.predicted_end_unix_seconds)}` : "not known yet");
  }
  setText(byId("elapsed"), figures.seconds(run.elapsed_seconds));
  setText(byId("elapsed-note"), run.elapsed_seconds === null ? "not known" : "of training");
  setText(byId("tokens"), figures.large(run.tokens));
  const newest = newestOf(known.rounds, "tokens");
  setText(byId("tokens-note"), newest ? `${figures.large(newest.tokens)} a round` : "");
  const train = newestOf(known.rounds, "train_loss");
  setText(byId("train-loss"), train ? figures.loss(train.train_loss) : figures.none);
  const unit = run.loss_unit ? `${run.loss_unit}, ` : "";
  setText(byId("train-loss-note"), train ? `${unit}round ${figures.count(train.version)}` : "");
  const validation = newestOf(known.evaluations, "loss");
  setText(byId("val-loss"), validation ? figures.loss(validation.loss) : figures.none);
  const spread = validation && validation.own_parties
      ? `; parties ${figures.loss(validation.own_tenth)} to ` +
        `${figures.loss(validation.own_ninetieth)}` : "";
  setText(byId("val-loss-note"), validation
      ? `${unit}round ${figures.count(validation.version)}${spread}` : "not evaluated yet");
  showUtilisation(run);
  const live = run.peers.filter((peer) => peer.member.state === "live");
  setText(byId("live"), `${live.length} of ${run.peers.length}`);
  const speed = live.reduce((sum, peer) => sum + peer.progress.tokens_per_second, 0);
  setText(byId("live-note"), speed > 0 ? `live, ${figures.large(speed)} tokens/s` : "live");
  setText(byId("foot"),
          `${figures.large(run.parameters)} parameters, ${run.spec.codec}, ` +
          `${run.spec.outer.rule} outer step, coordinator epoch ${figures.count(run.epoch)}`);
}

// -- charts

const lossChart = new LossChart();
const timeChart = new TimeChart();

function chartRows() {
  const versions = new Set([...known.rounds.keys(), ...known.evaluations.keys()]);
  const rows = [];
  let allTokens = 0;
  let before = 0;
  let elapsed = 0;
  for (const version of [...versions].sort((a, b) => a - b)) {
    const round = known.rounds.get(version);
    const evaluation = known.evaluations.get(version);
    if (round) {
      allTokens += round.tokens * (version - before);  // of rounds that were left out too
      before = version;
      elapsed = round.elapsed_seconds;
    }
    rows.push({
      version, allTokens, elapsed,
      train: figures.point(round ? round.train_loss : null),
      validation: figures.point(evaluation ? evaluation.loss : null),
      trained: round ? round.train_seconds : null,
      exchanged: round ? round.exchange_seconds || 0 : 0,
      audited: round ? round.audit_seconds || 0 : 0,
    });
  }
  return rows;
}

function showCharts() {
  const rows = chartRows();
  lossChart.show(rows);
  timeChart.show(rows);
}

// -- peers

const IDLE = {
  starting: "its worker is starting", syncing: "fetching the state of the run",
  waiting: "has no work now", masking: "masking its update", exchanging: "exchanging",
  evaluating: "evaluating", stopped: "its worker has stopped",
};

// What it does, or why it does nothing: {badge, look, why}.
function stateOf(peer) {
  const {state} = peer.member;
  const {phase, held_back: heldBack, still_tensors: still} = peer.progress;
  const why = heldBack || (peer.why === still ? "" : peer.why);  // that is among its flags
  if (state === "dead" || state === "evicted") return {badge: state, look: "bad", why};
  if (state === "suspect") return {badge: state, look: "warn", why};
  if (state === "left") return {badge: state, look: "", why};
  if (heldBack) return {badge: "held back", look: "warn", why};
  if (state === "joining") return {badge: state, look: "busy", why: why || IDLE[phase] || phase};
  if (phase === "training") {
    const {step, steps} = peer.progress;
    const done = steps ? `step ${figures.count(step)} of ${figures.count(steps)}` : "";
    return {badge: phase, look: "good", why: [done, why].filter(Boolean).join("; ")};
  }
  if (["masking", "exchanging", "evaluating"].includes(phase)) {
    return {badge: phase, look: "busy", why};
  }
  const badge = peer.member.role === "aggregator" ? "aggregating" : phase || state;
  return {badge, look: why ? "warn" : "", why: why || idleBecause(phase, peer)};
}

function idleBecause(phase, peer) {
  if (peer.member.role === "aggregator") return "it averages, and has no worker";
  const run = known.run;
  if (phase !== "waiting") return IDLE[phase] || "";
  if (run.phase === "paused") return "the run is paused";
  if (run.phase === "waiting") return "the run waits";
  if (run.phase === "training") return "its steps are done; it waits for the others";
  if (run.phase === "exchanging") return "for the exchange to end";
  return IDLE.waiting;
}

function flagsOf(peer) {
  const flags = [];
  if (peer.offence) flags.push({text: peer.offence, bad: true});
  if (peer.progress.still_tensors) flags.push({text: peer.progress.still_tensors, bad: true});
  if (peer.updates_refused) {
    flags.push({text: `${figures.count(peer.updates_refused)} refused`, bad: true});
  }
  if (peer.data_refused) {
    flags.push({text: `${figures.count(peer.data_refused)} unfit`, bad: true});
  }
  if (peer.updates_clipped) flags.push({text: `${figures.count(peer.updates_clipped)} clipped`});
  if (peer.worker_failures) {
    flags.push({text: `worker failed ${figures.counted(peer.worker_failures, "time")} in a row`});
  }
  return flags;
}

// The share of the time in which its worker trained; null: not known.
function usedOf(one) {
  return one.utilisation ? one.utilisation.compute_utilization : null;
}

const sort = {by: "", down: false};
const SORTS = {
  peer: (peer) => peer.member.peer,
  state: (peer) => stateOf(peer).badge,
  version: (peer) => peer.progress.version,
  tokens: (peer) => peer.tokens,
  share: (peer) => peer.mean_share || 0,
  used: (peer) => usedOf(peer) || 0,
  speed: (peer) => peer.progress.tokens_per_second || 0,
  flags: (peer) => flagsOf(peer).length,
};

function shownPeers(run) {
  const find = byId("find").value.trim().toLowerCase();
  const peers = run.peers.filter((peer) => !find || [peer.member.peer, peer.member.region,
      peer.member.state, peer.member.role].some((text) => text.toLowerCase().includes(find)));
  const of = SORTS[sort.by];
  if (!of) return peers;
  const order = sort.down ? -1 : 1;
  return peers.sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    return x < y ? -order : x > y ? order : 0;
  });
}

function makePeerRow(peer) {
  const row = document.createElement("tr");
  const name = make("td");
  const link = make("a", "", peer.member.peer);
  link.href = `/peer/${encodeURIComponent(peer.member.peer)}`;
  link.dataset.route = "";
  name.append(link, make("span", "sub"));
  const state = make("td");
  state.append(make("span", "badge"), make("span", "why"));
  row.append(name, state);
  for (const title of ["Round", "Tokens", "Share", "Utilised", "Tokens/s"]) {
    const cell = make("td", "number");
    cell.dataset.name = title;
    cell.append(make("span"));
    row.append(cell);
  }
  const flags = make("td", "flags");
  flags.dataset.name = "Flags";
  row.append(flags);
  return row;
}

function showPeerRow(row, peer) {
  const cells = row.children;
  const origin = [peer.member.role === "peer" ? "" : peer.member.role, peer.member.region].filter(Boolean);
  setText(cells[0].lastElementChild, origin.join(", "));
  const state = stateOf(peer);
  const [badge, why] = cells[1].children;
  setText(badge, state.badge);
  badge.className = `badge ${state.look}`;
  setText(why, state.why || "");
  const values = [figures.count(peer.progress.version), figures.large(peer.tokens),
                  figures.share(peer.mean_share), figures.share(usedOf(peer)),
                  figures.speed(peer.progress.tokens_per_second)];
  values.forEach((value, i) => setText(cells[2 + i].firstElementChild, value));
  keep(cells[2 + values.length], flagsOf(peer), (flag) => flag.text, () => make("span"), (element, flag) => {
    setText(element, flag.text);
    element.className = flag.bad ? "flag bad" : "flag";
  });
}

function showPeers(run) {
  keep(byId("peers"), shownPeers(run), (peer) => peer.member.peer, makePeerRow, showPeerRow);
  byId("peers-none").hidden = run.peers.length > 0;
  byId("find-label").hidden = run.peers.length < FIND_FROM;
}

// -- experts

// "0-3, 6" for ascending numbers.
function rangesOf(numbers) {
  const ranges = [];
  for (const number of numbers) {
    const last = ranges[ranges.length - 1];
    if (last && last[1] + 1 === number) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}

function showExperts(run) {
  const experts = run.experts || [];
  const ranks = Object.entries(run.lora_ranks || {});  // of adapters, in runs that have slices
  byId("experts-card").hidden = experts.length + ranks.length === 0;
  setText(byId("experts-title"), ranks.length > 0 ? "Ranks of adapters" : "Owners of experts");
  setText(byId("experts-column"), ranks.length > 0 ? "Trains" : "Owns");
  const owned = new Map();
  for (const {number, owners} of experts) {
    for (const owner of owners) owned.set(owner, [...(owned.get(owner) || []), number]);
  }
  const parts = new Map(ranks.map(([peer, rank]) => [peer, `1-${rank}`]));
  for (const [peer, numbers] of owned) parts.set(peer, rangesOf(numbers));
  const create = () => {
    const row = make("tr");
    row.append(make("td"), make("td"));
    return row;
  };
  keep(byId("experts"), [...parts.keys()].sort(), (peer) => peer, create, (row, peer) => {
    setText(row.children[0], peer);
    setText(row.children[1], parts.get(peer));
  });
  const asked = run.spec.experts ? run.spec.experts.owners : 0;
  const lacking = experts.filter((expert) => expert.owners.length < asked);
  byId("experts-lacking").hidden = lacking.length === 0;
  setText(byId("experts-lacking"), `Fewer than ${asked} owners, until another peer comes: ` +
      rangesOf(lacking.map((expert) => expert.number)));
}

// -- links and events

function showLinks(run) {
  const links = run.links || [];
  byId("links-table").hidden = links.length === 0;
  byId("links-none").hidden = links.length > 0;
  const create = () => {
    const row = document.createElement("tr");
    row.append(make("td"), make("td"));
    for (const title of ["Measured", "Predicted", "Latency"]) {
      const cell = make("td", "number");
      cell.dataset.name = title;
      cell.append(make("span"));
      row.append(cell);
    }
    return row;
  };
  const region = (name) => name || "(no region)";
  keep(byId("links"), links, (link) => `${link.from}\n${link.to}`, create, (row, link) => {
    const texts = [region(link.from), link.from === link.to ? "within it" : region(link.to),
                   figures.rate(link.measured_bytes_per_second),
                   figures.rate(link.predicted_bytes_per_second), figures.latency(link.seconds)];
    texts.forEach((text, i) => {
      setText(row.children[i].firstElementChild || row.children[i], text);
    });
  });
}

function showEventsIn(list, none, events) {
  list.replaceChildren(...events.map((event) => make("li", "", event.text)));
  none.hidden = events.length > 0;
  list.hidden = events.length === 0;
}

// -- one peer

function routedPeer() {
  const match = /^\/peer\/(.+)$/.exec(location.pathname);
  if (!match) return null;
  try {
    return decodeURIComponent(match[1]);
  } catch {
    return match[1];
  }
}

// The value at a place such as "/progress/loss"; null where nothing is known.
function valueAt(peer, place) {
  const names = place.slice(1).split("/");
  return names.reduce((value, name) => (value === null ? null : value[name]), peer);
}

// Each fact has a title, a text and, if it is listed, help.
function factsOf(peer) {
  const {progress, member} = peer;
  const listed = peerFigures.map(({place, title, unit, help}) => [
    title.charAt(0).toUpperCase() + title.slice(1), figures.shown(unit, valueAt(peer, place)), help,
  ]);
  return [
    ["Role", member.role], ["Region", member.region || figures.none],
    ["Address", member.address || "dials out only"], ["Device", peer.device || figures.none],
    ["Step", progress.steps ? `${progress.step} of ${progress.steps}` : figures.none],
    ...listed,
    ["Offence", peer.offence || "none"],
  ];
}

function showPeer(run, name) {
  const peer = run.peers.find((one) => one.member.peer === name);
  setText(byId("peer-title"), name);
  const state = peer ? stateOf(peer) : {badge: "unknown", look: "", why: "no such peer is known"};
  const badge = make("span", `badge ${state.look}`, state.badge);
  byId("peer-state").replaceChildren(badge, make("span", "why", state.why || ""));
  const create = () => {
    const row = make("div");
    row.append(make("dt"), make("dd"));
    return row;
  };
  keep(byId("peer-facts"), peer ? factsOf(peer) : [], ([title]) => title, create,
       (row, [title, value, help]) => {
         row.title = help || "";
         setText(row.firstElementChild, title);
         setText(row.lastElementChild, value);
       });
}

function showPeerEvents(name) {
  const letter = "[a-z0-9-]";  // of an id: peer-1 is not peer-11
  const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = new RegExp(`(^|(?!${letter}).)${escaped}(?!${letter})`);
  showEventsIn(byId("peer-events"), byId("peer-events-none"),
               known.events.filter((event) => pattern.test(event.text)));
}

// -- all of it

function showAll(charts, events) {
  const run = known.run;
  const name = routedPeer();
  byId("run-view").hidden = name !== null;
  byId("peer-view").hidden = name === null;
  if (!run) return;
  setText(byId("run-id"), run.run_id);
  const percent = run.spec.rounds ? Math.floor(100 * run.version / run.spec.rounds) : 0;
  const title = name === null ? `${percent} % ${run.run_id} \u2013 Atoll` : `${name} \u2013 Atoll`;
  if (document.title !== title) document.title = title;
  if (name !== null) {
    showPeer(run, name);
    if (events) showPeerEvents(name);
    return;
  }
  showPhase(run);
  showTiles(run);
  showPeers(run);
  showExperts(run);
  showLinks(run);
  if (charts) showCharts();
  if (events) showEventsIn(byId("events"), byId("events-none"), known.events);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-route]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  showAll(true, true);
  byId("main").focus({preventScroll: true});
  scrollTo(0, 0);
});
addEventListener("popstate", () => showAll(true, true));

for (const head of document.querySelectorAll("th[data-sort]")) {
  head.querySelector("button").addEventListener("click", () => {
    const by = head.dataset.sort;
    sort.down = sort.by === by ? !sort.down : head.classList.contains("number");
    sort.by = by;
    for (const other of document.querySelectorAll("th[data-sort]")) {
      other.removeAttribute("aria-sort");
    }
    head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    if (known.run) showPeers(known.run);
  });
}
byId("find").addEventListener("input", () => known.run && showPeers(known.run));
byId("axis").addEventListener("change", (event) => lossChart.use(event.target.value));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  lossChart.redraw();
  timeChart.redraw();
});

let openedAt = performance.now();
showAll(false, false);
open();
setInterval(watchLine, 500);
