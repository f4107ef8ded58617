// The page of a host: shows what the control plane says to the token that was given, and asks it to act.

import { levels, quantile, requests, since } from "./metrics.js";

const REFRESH_MS = 2000;
const byId = (id) => document.getElementById(id);
let counted = { at: 0, models: new Map() };

/** One call of the control plane; null where the token may not. */
async function call(path, options = {}) {
  const headers = { Authorization: `Bearer ${sessionStorage.token ?? ""}`, ...options.headers };
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.status === 403) return null;
  const text = await answer.text();
  if (!answer.ok) throw new Error(messageOf(text) || `${path}: ${answer.status}`);
  return answer.headers.get("content-type")?.startsWith("application/json") ? JSON.parse(text) : text;
}

function messageOf(text) {
  try {
    const { error, hint } = JSON.parse(text);
    return hint ? `${error} (${hint})` : error;
  } catch {
    return "";
  }
}

const act = (path, body) => call(path, { method: "POST", body: JSON.stringify(body) });

/** Everything that publishers wrote goes into the page as text, never as markup. */
function cell(content, style = "") {
  const td = document.createElement("td");
  td.append(content ?? "");
  td.className = style;
  return td;
}

function withNote(text, note) {
  const span = document.createElement("span");
  span.append(text);
  if (note) span.append(Object.assign(document.createElement("small"), { textContent: note }));
  return span;
}

function action(label, question, work) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
  button.addEventListener("click", async () => {
    if (question && !confirm(question)) return;
    button.disabled = true;
    await attempt(work);
    await refresh();
  });
  return button;
}

function fill(table, rows) {
  const body = byId(table).tBodies[0];
  body.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells);
    return row;
  }));
  byId(table).hidden = rows.length === 0;
}

const short = (digest) => digest.slice(0, 12);
const time = (text) => (text ? new Date(text).toLocaleString() : "");
const milliseconds = (seconds) => (seconds === null ? "" : seconds === Infinity ? "> 30 s" : `< ${seconds * 1e3} ms`);
const size = (bytes) => (bytes < 1 << 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`);

function showModels(entries, metrics) {
  const now = { at: performance.now(), models: metrics === null ? new Map() : requests(metrics) };
  const seconds = (now.at - counted.at) / 1e3;
  fill("models", entries.map(({ name, version, state, reason }) => {
    const key = `${name}/${version}`;
    const total = now.models.get(key);
    const fresh = total && since(counted.models.get(key), total);
    const target = { parameters: { version } };
    const [verb, question] = state === "READY" ? ["unload", `Unload ${name} version ${version}?`] : ["load", ""];
    return [
      cell(name), cell(version), cell(withNote(state.toLowerCase(), reason), state.toLowerCase()),
      cell(fresh && counted.at ? (fresh.answered / seconds).toFixed(1) : "", "number"),
      cell(total ? String(total.failed) : "", "number"),
      cell(fresh ? milliseconds(quantile(fresh.buckets, 0.5)) : "", "number"),
      cell(fresh ? milliseconds(quantile(fresh.buckets, 0.99)) : "", "number"),
      cell(action(verb, question, () => act(`v2/repository/models/${encodeURIComponent(name)}/${verb}`, target))),
    ];
  }));
  counted = now;
}

function showLevels(metrics) {
  const rows = metrics === null ? [] : levels(metrics);
  byId("service").hidden = rows.length === 0;
  fill("levels", rows.map(({ tenant, class: name, requests: count, met }) => [
    cell(tenant), cell(name), cell(String(count), "number"), cell(`${((100 * met) / count).toFixed(2)} %`, "number"),
  ]));
}

function showBundles(bundles) {
  fill("bundles", (bundles ?? []).map((bundle) => [
    cell(bundle.name), cell(withNote(String(bundle.version), bundle.release)),
    cell(withNote(bundle.state, bundle.detail), bundle.state),
    cell(bundle.signers.map(({ key, holder }) => `${key} (${holder})`).join(", ")),
    cell(`${bundle.holders.length} of ${bundle.threshold}`), cell(size(bundle.size), "number"),
    cell(time(bundle.accepted_at)), cell(short(bundle.id), "mono"),
    cell(bundle.state === "revoked" ? "" : action("revoke", `Revoke ${bundle.name} ${bundle.version} for ever?`, () =>
      act("v1/revocations", { target: "bundle", digest: bundle.id, reason: "revoked on the dashboard" }))),
  ]));
}

function showTrust(policy, revocations) {
  if (policy !== null) {
    const problem = policy.problem ? ` The file in place now has a fault: ${policy.problem}` : "";
    byId("policy").textContent = `Policy with serial ${policy.serial}, ${policy.rules.length} rules.${problem}`;
    fill("keys", policy.keys.map((key) => [
      cell(key.name, key.revoked ? "revoked" : ""), cell(key.holder), cell(short(key.fingerprint), "mono"),
      cell(key.revoked ? "revoked" : time(key.not_after)),
    ]));
  }
  fill("revocations", (revocations ?? []).map(({ target, digest, reason, actor, at }) => [
    cell(target), cell(short(digest), "mono"), cell(reason), cell(actor), cell(time(at)),
  ]));
}

async function attempt(work) {
  try {
    await work();
    byId("problem").hidden = true;
  } catch (error) {
    byId("problem").textContent = error.message;
    byId("problem").hidden = false;
  }
}

async function show() {
  const health = await fetch("v2/health/ready");
  byId("state").textContent = health.ok ? "ready" : (await health.json()).error;
  byId("state").className = `badge ${health.ok ? "ready" : "failed"}`;
  if (!sessionStorage.token) return;
  const [index, metrics, bundles, policy, revocations, log] = await Promise.all([
    act("v2/repository/index", {}), call("metrics"), call("v1/bundles"), call("v1/trust"), call("v1/revocations"),
    call("v1/log/checkpoint"),
  ]);
  byId("host").hidden = false;
  showModels(index ?? [], metrics);
  showLevels(metrics);
  showBundles(bundles);
  showTrust(policy, revocations);
  byId("log").textContent = log ?? "This token may not read the log.";
}

const refresh = () => attempt(show);

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.token = byId("token").value.trim(); // gone with the tab
  byId("token").value = "";
  refresh();
});
setInterval(() => document.hidden || refresh(), REFRESH_MS);
refresh();
