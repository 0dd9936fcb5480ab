// The list of groups.

import { read } from "./api.js";
import { ago, clock, counted, el, fill, part, table } from "./dom.js";

export function groupsPage(main, namespace) {
  const field = el("input", { id: "namespace", value: namespace, placeholder: "all namespaces", autocomplete: "off", spellcheck: "false" });
  const go = (event) => {
    event.preventDefault();
    location.hash = `#/${encodeURIComponent(field.value.trim())}`;
  };
  const form = el("form", { class: "namespace", onsubmit: go }, el("label", { for: "namespace" }, "Namespace"), field, el("button", {}, "Show"));
  const list = el("div", { class: "list" });
  fill(main, el("h2", {}, "Groups"), form, list);
  return part(list, (page) => {
    if (!page.groups.length) return el("p", {}, namespace ? `There is no ConsumerGroup in namespace ${namespace}.` : "There is no ConsumerGroup in the cluster.");
    const rows = page.groups.slice(0, 1000).map((group) => [
      el("a", { href: `#/${encodeURIComponent(group.namespace)}/${encodeURIComponent(group.name)}` }, `${group.namespace}/${group.name}`),
      [state(group.state), group.holdUntil ? [" ", clock(group.holdUntil, "")] : null, group.proposal ? " · proposal" : null],
      group.partitions ?? "–", group.unowned ?? "–", group.members ?? "–", group.moving ?? "–", group.reason ?? "–",
      group.state !== "Unknown" ? "current" : group.changedAt ? ["as of ", el("span", { "data-at": group.changedAt }, ago(group.changedAt))] : "never written",
    ]);
    const more = page.groups.length - rows.length;
    return [
      table("ConsumerGroups", ["Group", "State", "Partitions", "Unowned", "Members", "Moving", "Ready", "Status"], rows, { class: "stacked words" }),
      more > 0 ? el("p", {}, `and ${counted(more, "more group")}: choose a namespace`) : null,
      page.notes.map((note) => el("p", { class: "warning" }, note)),
    ];
  });
}

// The viewer may not list these groups: offer readable namespaces.
export async function offerNamespaces(why) {
  const list = document.querySelector(".list");
  const { namespaces } = await read("/api/namespaces").catch(() => ({ namespaces: [] }));
  fill(list, el("p", {}, namespaces.length ? "You may not list these groups. You may read these namespaces:" : "You may not list these groups. Enter a namespace that you may read."),
    el("ul", {}, namespaces.map((one) => el("li", {}, el("a", { href: `#/${encodeURIComponent(one)}` }, one)))),
    el("p", { class: "quiet" }, why));
  document.getElementById("namespace").focus();
}

export const state = (word) => el("span", { class: `state ${/^\w+$/.test(word ?? "") ? word : ""}` }, word ?? "–");
