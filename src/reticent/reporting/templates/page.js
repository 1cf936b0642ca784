"use strict";
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");

  /* Colours are roles; the theme says which they are. */
  const look = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const paint = (value) => {
    if (Array.isArray(value)) return value;
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, paint(inner)]));
    }
    if (typeof value !== "string" || !value.startsWith("role:")) return value;
    const [, role, kind] = value.split(":");
    const colour = look(/^\d$/.test(role) ? `--c${role}` : `--${role}`);
    return kind === "band" ? colour + "2e" : colour;
  };

  const axis = (own) => ({
    gridcolor: look("--line"), linecolor: look("--line"), zeroline: false, ticks: "", automargin: true,
    ...own, title: { ...(own.title || {}), font: { size: 12, color: look("--soft") }, standoff: 10 },
  });
  const layout = (figure) => ({
    ...figure.layout,
    height: figure.height, autosize: true, showlegend: true,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: look("--ink") },
    margin: { l: 52, r: 12, t: 10, b: 48 },
    legend: { orientation: "h", x: 0, y: -0.16, yanchor: "top", font: { size: 12 } },
    hoverlabel: { bgcolor: look("--card"), bordercolor: look("--soft"), font: { color: look("--ink"), size: 12 }, align: "left" },
    hovermode: "closest",
    xaxis: axis(figure.layout.xaxis), yaxis: axis(figure.layout.yaxis),
  });
  const config = {
    responsive: true, displaylogo: false, displayModeBar: "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], showTips: false,
  };
  const draw = () => {
    for (const [key, figure] of Object.entries(figures)) {
      Plotly.react(key, paint(figure.data.map((trace) => paint(trace))), layout(figure), config);
    }
    root.dataset.drawn = String(Object.keys(figures).length);
  };

  const wear = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colours`);
    button.setAttribute("aria-pressed", String(theme === "dark"));
    draw();
  };
  button.addEventListener("click", () => wear(root.dataset.theme === "dark" ? "light" : "dark"));
  dark.addEventListener("change", (event) => wear(event.matches ? "dark" : "light"));
  wear(dark.matches ? "dark" : "light");

  /* Charts are measured on the screen; on paper they are narrower. */
  const fit = () => Object.keys(figures).forEach((key) => Plotly.Plots.resize(key));
  addEventListener("beforeprint", fit);
  addEventListener("afterprint", fit);

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
