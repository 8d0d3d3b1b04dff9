// The script of the viewer. Every page is whole without it; with it, numbers stay new, tables go on, and keys move.
"use strict";

// The colours are chosen before anything is drawn. What cannot be kept is chosen anew with each page.
const theme = {
  get() { try { return localStorage.getItem("blobcache-theme"); } catch { return null; } },
  set(value) { try { localStorage.setItem("blobcache-theme", value); } catch { /* private windows keep nothing */ } },
};
if (theme.get()) document.documentElement.dataset.theme = theme.get();

// A page of this server as a document of its own, in which no script runs.
async function load(address) {
  const response = await fetch(address, { headers: { Accept: "text/html" } });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

// What is marked as live is replaced by what the page says now, unless it is the same.
async function refresh() {
  const fresh = await load(location.href.split("#")[0].replace(/([?&])anew=1&?/, "$1"));
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(old.id);
    if (!now) { old.removeAttribute("data-live"); continue; }
    if (!now.hasAttribute("data-live")) old.removeAttribute("data-live");
    if (now.innerHTML !== old.innerHTML && !old.contains(document.activeElement)) old.replaceChildren(...now.childNodes);
  }
}

function keepNew() {
  let isBusy = false;
  setInterval(async () => {
    if (isBusy || document.hidden || !document.querySelector("[data-live]")) return;
    isBusy = true;
    try { await refresh(); } catch { /* the next look may succeed */ } finally { isBusy = false; }
  }, 2000);
}

// Pages of the table follow each other as they come into sight. Of those far away only the height is kept, so that a table
// of a million rows is some hundred rows at a time.
function goOn(table) {
  let next = document.querySelector("a[rel=next]");
  if (!next) return;
  const end = next.parentElement;
  table.tBodies[0].dataset.page = location.href;
  let isBusy = false;

  const forget = (body) => {
    if (body.dataset.height || body.contains(document.activeElement)) return;
    const height = Math.round(body.getBoundingClientRect().height);
    if (height === 0) return;
    body.dataset.height = height;
    const row = body.ownerDocument.createElement("tr");
    row.className = "gap";
    const cell = row.insertCell();
    cell.colSpan = table.tHead.rows[0].cells.length;
    cell.height = height;
    body.replaceChildren(row);
  };
  const recall = async (body) => {
    if (!body.dataset.height || body.dataset.busy) return;
    body.dataset.busy = "1";
    try {
      const page = await load(body.dataset.page);
      body.replaceChildren(...page.querySelector("#records tbody").rows);
      delete body.dataset.height;
    } catch { /* it is tried again when it is seen again */ } finally { delete body.dataset.busy; }
  };
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) recall(entry.target); else forget(entry.target);
    }
  }, { rootMargin: "6000px" });
  near.observe(table.tBodies[0]);

  const append = async () => {
    if (isBusy || !next) return;
    isBusy = true;
    const address = next.href;
    try {
      const page = await load(address);
      const body = table.createTBody();
      body.dataset.page = address;
      body.append(...page.querySelector("#records tbody").rows);
      near.observe(body);
      const after = page.querySelector("a[rel=next]");
      if (after) { next.setAttribute("href", after.getAttribute("href")); } else { next = null; end.remove(); }
    } catch { sight.disconnect(); } finally { isBusy = false; }
    // A page without rows leaves the end in sight, which is not told again.
    if (next && end.getBoundingClientRect().top < innerHeight + 1200) setTimeout(append, 50);
  };
  const sight = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) append();
  }, { rootMargin: "1200px" });
  sight.observe(end);
}

// j and k go from record to record, / to the filter, g and a letter to a page.
function moveByKeys() {
  let isGoing = false;
  const pages = { o: "./", r: "records", l: "records?state=locked", c: "collections" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (isGoing && pages[event.key]) { location.href = pages[event.key]; return; }
    isGoing = event.key === "g";
    if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (field) { event.preventDefault(); field.select(); }
    }
    if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll("td.key a")];
      const at = links.indexOf(document.activeElement);
      const link = links[event.key === "j" ? at + 1 : Math.max(at, 1) - 1];
      if (link) { link.focus(); link.scrollIntoView({ block: "nearest" }); }
    }
  });
}

document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const isDark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    theme.set(document.documentElement.dataset.theme);
  });
  for (const list of document.querySelectorAll(".filter select")) {
    list.addEventListener("change", () => list.form.requestSubmit());
  }
  const table = document.getElementById("records");
  if (table && table.tBodies.length) goOn(table);
  keepNew();
  moveByKeys();
});
