"use strict";
// Navigation between steps. The file has a panel per step, and the script shows one panel at a time.
(() => {
  const root = document.documentElement;
  const panels = [...document.querySelectorAll("[data-panel]")];
  const rows = [...document.querySelectorAll("[data-beat]")];
  const where = document.getElementById("where");
  const last = panels.length - 1;
  let now = -1;

  const show = (index, follow) => {
    index = Math.min(Math.max(index, 0), last);
    if (index === now) return;
    now = index;
    const panel = panels[index];
    panels.forEach((each) => { each.hidden = each !== panel; });
    rows.forEach((row) => {
      const here = row.dataset.beat === panel.dataset.panel;
      row.classList.toggle("here", here);
      if (here) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    where.textContent = panel.dataset.title;
    document.getElementById("back").disabled = index === 0;
    document.getElementById("on").disabled = index === last;
    // When the file opens, the table of steps stays at its top. Later it scrolls to the chosen step.
    for (const row of follow ? rows.filter((each) => each.classList.contains("here")) : []) {
      const box = row.closest(".scrolls");
      box.scrollTop = row.offsetTop - (box.clientHeight - Math.min(row.clientHeight, box.clientHeight)) / 2;
    }
    // Inside a notebook's iframe, the document has no address to change.
    if (follow && location.protocol !== "about:") history.replaceState(null, "", "#" + panel.id);
  };

  const at = (id) => panels.findIndex((panel) => panel.id === id);
  root.classList.add("live");
  document.getElementById("back").addEventListener("click", () => show(now - 1, true));
  document.getElementById("on").addEventListener("click", () => show(now + 1, true));
  rows.forEach((row) => row.addEventListener("click", (event) => {
    if (String(getSelection())) return;
    event.preventDefault();
    show(panels.findIndex((panel) => panel.dataset.panel === row.dataset.beat), true);
  }));
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to, true);
  });
  addEventListener("hashchange", () => { if (at(location.hash.slice(1)) >= 0) show(at(location.hash.slice(1)), false); });
  // A site that embeds this document sends its color scheme, light or dark. The answer is the height that
  // the iframe needs. In a lower iframe, the map of KV pages would be cut off and look complete.
  addEventListener("message", ({ data, source }) => {
    if (!["light", "dark"].includes(data)) return;
    root.dataset.scheme = data;
    const shown = [panels[now], ...panels[now].querySelectorAll(".pages")].at(-1);
    source?.postMessage({ height: Math.ceil(shown.getBoundingClientRect().bottom + scrollY) }, "*");
  });
  // A printout shows every panel.
  addEventListener("beforeprint", () => panels.forEach((panel) => { panel.hidden = false; }));
  addEventListener("afterprint", () => { const index = now; now = -1; show(index, false); });
  show(at(location.hash.slice(1)) >= 0 ? at(location.hash.slice(1)) : last, false);
})();
