"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");

  const wear = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colours`);
    button.setAttribute("aria-pressed", String(theme === "dark"));
  };
  button.addEventListener("click", () => wear(root.dataset.theme === "dark" ? "light" : "dark"));
  dark.addEventListener("change", (event) => wear(event.matches ? "dark" : "light"));
  wear(dark.matches ? "dark" : "light");

  /* Paper shows everything: what is folded opens for printing and closes again. */
  const folded = () => [...document.querySelectorAll("details:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => { opened = folded(); opened.forEach((one) => { one.open = true; }); });
  addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));

  /* A link to a folded part opens it. */
  const reveal = () => { const part = document.getElementById(location.hash.slice(1)); const fold = part && part.closest("details"); if (fold) { fold.open = true; part.scrollIntoView(); } };
  addEventListener("hashchange", reveal);
  reveal();

  /* Tables sort by a column's numbers where it has them, else by its words; gaps always last. */
  const sort = (table, place, upward) => {
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => {
      const value = row.cells[place].dataset.value;
      return { row, number: value === undefined ? null : parseFloat(value.replace("inf", "Infinity")), text: row.cells[place].textContent };
    });
    const numeric = keyed.some((one) => one.number !== null);
    keyed.sort((a, b) => {
      if (!numeric) return (upward ? 1 : -1) * a.text.localeCompare(b.text, undefined, { numeric: true });
      if (a.number === null || b.number === null) return (a.number === null) - (b.number === null);
      return a.number === b.number ? 0 : (upward ? 1 : -1) * (a.number < b.number ? -1 : 1);
    });
    body.append(...keyed.map((one) => one.row));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
      const upward = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", upward ? "ascending" : "descending");
      sort(table, place, upward);
    }));
  }
})();
