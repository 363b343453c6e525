/** What scrolls sideways: named and reachable by keyboard while it does; the tab that is open is in sight. */

const sizes = new ResizeObserver((entries) => {
  for (const region of new Set(entries.map((entry) => entry.target.closest(".scroll-x")))) if (region) name(region);
});

export function mount(root) {
  for (const region of root.querySelectorAll(".scroll-x")) {
    sizes.observe(region);
    for (const inside of region.children) sizes.observe(inside);
    name(region);
  }
  for (const tab of root.querySelectorAll(".tabs [aria-current]")) {
    const strip = tab.parentElement;
    strip.scrollLeft = tab.offsetLeft - strip.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
  }
}

/** A table that fits is no stop of the Tab key. */
function name(region) {
  if (region.scrollWidth <= region.clientWidth + 1) {
    for (const attribute of ["role", "tabindex", "aria-label"]) region.removeAttribute(attribute);
    return;
  }
  const heading = region.closest(".card")?.querySelector("h2") ?? document.querySelector(".tabs [aria-current], h1");
  region.setAttribute("role", "region");
  region.setAttribute("tabindex", "0");
  region.setAttribute("aria-label", `${heading?.textContent.trim() ?? "Table"}, scrolls sideways`);
}
