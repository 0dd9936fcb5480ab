// The page to show, and the token.

import { ask, hasToken, stream, useToken } from "./api.js";
import { el, fill, setClock } from "./dom.js";
import { groupPage } from "./group.js";
import { groupsPage, offerNamespaces } from "./groups.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const signOut = document.getElementById("sign-out");
let settings, end = () => {};

// #token=…&at=/shop/orders, as printed by `baton console`; the token does not stay in the address. If viewers sign in, tokens in links
// are ignored: it could be another person's token, and the viewer would approve in that person's name.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.has("token")) return;
  if (!settings.signIn) useToken(given.get("token"));
  history.replaceState(null, "", `#${given.get("at") || ""}`);
}

function show() {
  takeToken();
  end();
  fill(connection);
  signOut.hidden = !(settings.signIn && hasToken());
  if (!hasToken()) return signIn("");
  if (!location.hash.startsWith("#/") && location.hash.length > 1) return undefined; // a link within the page
  const [namespace, name] = location.hash.slice(2).split("/").map(decodeURIComponent);
  document.title = name ? `${name} – Baton` : "Baton";
  const shown = location.hash ? namespace : settings.namespace ?? ""; // "#/": all namespaces, as requested
  const draw = name ? groupPage(main, namespace, name, settings.mayApprove) : groupsPage(main, shown);
  const where = name ? ["/api/group", { namespace, name }] : ["/api/groups", { namespace: shown }];
  end = stream(...where, told(draw, name ? null : offerNamespaces), (text) => fill(connection, text));
  return undefined;
}

const told = (draw, forbidden) => (kind, seconds, data) => {
  if (kind === "page") {
    setClock(seconds);
    draw(data);
  } else if (data.status === 401) {
    useToken(null);
    signIn(data.error);
  } else if (data.status === 403 && forbidden) {
    forbidden(data.error);
  } else if (data.status === 403) {
    fill(main, el("h2", {}, "You may not see this group"), el("p", { class: "error" }, data.error));
  } else {
    fill(connection, el("span", { class: "error" }, data.error));
  }
};

function signIn(why) {
  signOut.hidden = true;
  if (!settings.signIn) return fill(main, el("h2", {}, "No access"), el("p", { class: "error" }, why || "Open the URL that `baton console` printed: it contains a token."));
  const field = el("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const enter = (event) => {
    event.preventDefault();
    useToken(field.value.trim());
    show();
  };
  fill(main, el("h2", {}, "Sign in"),
    el("p", {}, "Use a Kubernetes token; you see what its account may read. For example: ", el("code", {}, "kubectl create token NAME -n NAMESPACE")),
    el("form", { onsubmit: enter }, el("label", { for: "token" }, "Token"), field, el("button", {}, "Sign in")),
    why ? el("p", { class: "error", role: "alert" }, why) : null);
  return field.focus();
}

signOut.addEventListener("click", () => {
  useToken(null);
  show();
});
settings = await (await ask("/api/settings")).json();
addEventListener("hashchange", show);
show();
