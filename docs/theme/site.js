"use strict";
// What the theme leaves to a site. Files opened from disk can't look into each other.
(() => {
  const frames = [...document.querySelectorAll("iframe.counterexample")];
  const scheme = () => (document.body.dataset.mdColorScheme === "slate" ? "dark" : "light");
  const tell = () => frames.forEach((frame) => frame.contentWindow.postMessage(scheme(), "*"));
  frames.forEach((frame) => frame.addEventListener("load", tell));
  new MutationObserver(tell).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  addEventListener("message", ({ data, source }) => {
    const frame = frames.find((each) => each.contentWindow === source);
    if (frame && data.height > 0) frame.style.height = `${data.height + 4}px`;
  });
  // A question on a list to tick off is the name of its box.
  for (const box of document.querySelectorAll(".task-list-item input"))
    box.setAttribute("aria-label", box.closest("li").innerText);
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  // What scrolls inside itself is reached by keyboard.
  const reach = () => {
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  new ResizeObserver(reach).observe(document.body);
  for (const frame of frames) new ResizeObserver(tell).observe(frame);
})();
