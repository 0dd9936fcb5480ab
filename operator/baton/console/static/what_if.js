// What if there were N pods: the operator's plan for them.

import { read } from "./api.js";
import { counted, el, fill, ranges, table } from "./dom.js";

export function whatIf(element, namespace, name) {
  const slider = el("input", { id: "pods", type: "range", min: 1, max: 10, value: 1, "aria-describedby": "supposed" });
  const number = el("input", { type: "number", min: 1, max: 10000, value: 1, "aria-label": "Number of pods" });
  const result = el("div", { id: "supposed", role: "status" });
  let waiting, end, touched = false;

  const ask = (pods) => {
    touched = true;
    slider.value = number.value = pods;
    slider.setAttribute("aria-valuetext", counted(Number(pods), "pod"));
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      end?.abort();
      end = new AbortController();
      const mine = end;
      element.setAttribute("aria-busy", "true");
      try {
        fill(result, answered(await read("/api/what-if", { namespace, name, pods }, { signal: mine.signal })));
      } catch (error) {
        if (!mine.signal.aborted) fill(result, el("p", { class: "warning" }, error.message));
      }
      if (mine === end) element.removeAttribute("aria-busy");
    }, 200);
  };
  slider.addEventListener("input", () => ask(slider.value));
  number.addEventListener("change", () => ask(number.value));
  fill(element, el("h3", {}, "What if"), el("p", { class: "row" }, el("label", { for: "pods" }, "there were"), slider, number, " pods?"), result);

  return (page) => {
    const pods = page.members.filter((one) => one.role !== "gone").length;
    slider.max = Math.max(10, 2 * pods, Math.min(page.partitions ?? 0, 64), Number(number.value));
    if (!touched) slider.value = number.value = Math.max(1, pods);
  };
}

function answered(of) {
  const rows = of.changes.map((one) => [one.member, `${one.before} → ${one.after ?? "gone"}`, ranges(one.gains) || "–", ranges(one.loses) || "–"]);
  const hidden = of.changed - of.changes.length;
  return [
    el("p", {}, el("b", {}, `${counted(of.podsNow, "pod")} → ${of.pods}`), ": ", of.sentences.map((one) => el("span", one.good ? {} : { class: "warning" }, `${one.text} `))),
    rows.length ? table("Gains and losses", ["Member", "Partitions", "Gains", "Loses"], rows, { class: "stacked" }) : null,
    el("p", { class: "quiet" }, `${hidden > 0 ? `and ${counted(hidden, "more member")} that would change; ` : ""}${counted(of.unchanged, "member")} unchanged. Nothing was changed.`),
  ];
}
