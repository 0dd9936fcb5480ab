// One group.

import { ask, read } from "./api.js";
import { ago, clock, counted, el, fill, part, ranges, table } from "./dom.js";
import { Grid } from "./grid.js";
import { state } from "./groups.js";
import { whatIf } from "./what_if.js";

const MOST_MEMBERS = 200;

export function groupPage(main, namespace, name, mayApprove) {
  const box = (id, tag = "section") => el(tag, { id });
  const head = box("summary"), problems = box("problems"), queues = box("queues"), handoffs = box("handoffs");
  const proposal = box("proposal"), supposed = box("what-if"), timeline = box("timeline"), conditions = box("conditions");
  const canvas = el("canvas", { id: "grid", tabindex: 0, role: "slider", "aria-label": "Partitions and their owners", "aria-describedby": "legend" });
  const cell = el("p", { id: "cell" });
  const filter = el("input", { id: "filter", type: "search", placeholder: "part of a name", autocomplete: "off", spellcheck: "false" });
  const members = el("div", { id: "members" });
  fill(main, el("h2", {}, `${namespace}/${name}`), head, problems, proposal,
    el("section", {}, el("h3", {}, "Partitions and members"), legend(), el("div", { class: "canvas" }, canvas), cell, queues), handoffs,
    el("section", {}, el("h3", {}, "Members"), el("p", { class: "row" }, el("label", { for: "filter" }, "Show those with"), filter), members),
    supposed, timeline, conditions);
  const grid = new Grid(canvas, (words, handoff) => fill(cell, words, handoff?.deadline ? [", ", clock(handoff.deadline)] : null, handoff?.why ? `: ${handoff.why}` : null));
  canvas.addEventListener("focus", () => grid.draw());
  canvas.addEventListener("blur", () => grid.draw());
  const suppose = whatIf(supposed, namespace, name);
  const parts = {
    head: part(head, summary), problems: part(problems, problemList), queues: part(queues, queueTable), handoffs: part(handoffs, handoffList),
    timeline: part(timeline, happened), conditions: part(conditions, conditionTable), members: part(members, memberTable),
    proposal: part(proposal, (shown) => shown && proposed(shown, namespace, name, mayApprove)),
  };
  let last;
  const membersAgain = () => last && parts.members([last.members.filter((one) => one.name.includes(filter.value.trim())), last.members.length]);
  filter.addEventListener("input", membersAgain);

  return (page) => {
    if (page.gone) return fill(main, el("h2", {}, `${namespace}/${name}`), el("p", { class: "error" }, page.gone));
    last = page;
    const { grid: _, members: __, timeline: ___, handoffs: ____, ...rest } = page;
    parts.head(rest);
    parts.problems([page.problems, page.notes]);
    parts.queues(page.queues);
    parts.handoffs([page.handoffs, page.slots]);
    parts.timeline(page.timeline);
    parts.conditions(page.conditions);
    parts.proposal(page.proposal);
    membersAgain();
    grid.show(page);
    suppose(page);
  };
}

function summary(page) {
  const lag = page.lag ?? "not asked yet";
  const facts = [
    ["State", [state(page.state), page.holdUntil ? [" ", clock(page.holdUntil, "over")] : null, page.why ? ` ${page.why}` : null]],
    ["Partitions", `${page.partitions ?? "?"}, ${page.unowned ?? "?"} without an owner, ${page.moving ?? 0} moving`],
    ["Members", `${page.memberCount ?? 0} (${page.standbys ?? 0} standing by)`],
    ["Moves so far", `${page.moves ?? 0} (minimum ${page.lowerBound ?? 0}), ${page.deadlineMisses ?? 0} deadlines missed`],
    ["Lag", lag],
    ["Assignor", `${page.assignor ?? "–"}${page.approval === "Manual" ? ", approval Manual" : ""}`],
  ];
  return el("dl", {}, facts.map(([term, value]) => [el("dt", {}, term), el("dd", {}, value)]));
}

const problemList = ([problems, notes]) => [
  problems.map((one) => el("p", { class: one.severity }, one.what ? el("b", {}, one.what) : null, one.rest)),
  notes.map((note) => el("p", { class: "note" }, note)),
];

const legend = () => el("ul", { id: "legend", class: "legend" },
  [["owned", "owned"], ["handoff", "hand-off: filled at the giver, framed at the receiver"], ["hold", "on hold: waits for its member"], ["unowned", "unowned"]]
    .map(([kind, text]) => el("li", { class: kind }, text)));

const queueTable = (queues) => table("Queues", ["Queue", "Partitions", "States", "Scale"], queues.map((one) => [
  one.name, one.partitions ?? "?", Object.entries(one.states).map(([word, count]) => `${count} ${word}`).join(", "), one.scale ?? "–"]), { class: "stacked words" });

const waitsFor = (one) => one.unacknowledged ? `, ${counted(one.unacknowledged, "unacknowledged message")}`
  : one.deadline && one.unacknowledged === null ? `, waits for ${one.from} to release it` : null;

function handoffList([handoffs, slots]) {
  if (!handoffs.count && !slots.length) return null;
  const hidden = handoffs.count - handoffs.shown.length;
  return [
    el("h3", {}, "Hand-offs"),
    el("ul", {}, handoffs.shown.map((one) => el("li", {}, el("b", {}, `${one.queue} ${one.partition}`), ` ${one.from ?? "unowned"} → ${one.to ?? "unowned"} `,
      one.deadline ? clock(one.deadline) : "waits for its grant", waitsFor(one), one.why ? `: ${one.why}` : null)),
    slots.map((one) => el("li", {}, `the slot of ${one.member} is kept `, one.until ? clock(one.until, "until the plan") : null, `: ${ranges(one.partitions)}`))),
    hidden > 0 ? el("p", {}, `and ${counted(hidden, "more hand-off")}: see the grid`) : null,
  ];
}

function memberTable([members, all]) {
  const rows = members.slice(0, MOST_MEMBERS).map((one) => [one.name, one.role === "member" ? one.count : one.role, one.problem ?? (ranges(one.owned) || "–"), ranges(one.revoking) || "–"]);
  return [
    table("Members and their partitions", ["Member", "Partitions", "Owns", "Releasing"], rows, { class: "stacked" }),
    el("p", { class: "quiet" }, `${Math.min(rows.length, all)} of ${counted(all, "member")}`),
  ];
}

function proposed(proposal, namespace, name, mayApprove) {
  const said = el("p", { role: "status" });
  const button = el("button", { type: "button", hidden: true, onclick: async () => {
    if (!confirm(`Approve proposal ${proposal.id} of ${namespace}/${name}? ${counted(proposal.moves, "partition")} move.`)) return;
    button.disabled = true;
    try {
      await ask("/api/approve", {}, { method: "POST", body: JSON.stringify({ namespace, name, proposal: proposal.id }) });
      fill(said, "Approved.");
    } catch (error) {
      button.disabled = false;
      fill(said, el("span", { class: "error" }, error.message));
    }
  } }, "Approve");
  if (mayApprove) read("/api/rights", { namespace, name }).then((may) => { button.hidden = !may.approve; }).catch((error) => fill(said, error.message));
  const moves = proposal.handoffs.map((one) => el("li", {}, `${one.queue} ${one.partitions}: ${one.from} → ${one.to}`));
  return [
    el("h3", {}, `Proposal ${proposal.id}`),
    el("p", {}, `${counted(proposal.moves, "partition")} would move (${proposal.reason}), ${proposal.pausedAtOnce} at once, each paused ${proposal.pause}. `,
      "Without the console: ", el("code", {}, `baton approve ${name} -n ${namespace}`)),
    el("ul", {}, moves), button, said,
  ];
}

const happened = (entries) => [
  el("h3", {}, "Timeline"),
  entries.length ? el("ol", { class: "timeline" }, entries.map((one) => el("li", one.warning ? { class: "warning" } : {},
    el("time", { "data-at": one.at, title: new Date(one.at * 1000).toISOString() }, ago(one.at)), " ", el("b", {}, one.kind), ` ${one.text}`)))
    : el("p", {}, "No known moves."),
];

const conditionTable = (conditions) => [
  el("h3", {}, "Conditions"),
  table("Conditions of the group", ["Condition", "Status", "Reason", "Message"], conditions.map((one) => [one.type, one.status, one.reason, one.message]), { class: "stacked words" }),
];
