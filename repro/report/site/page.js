(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("has-js");

  // A theme that was chosen is kept; a browser that keeps nothing is no reason to fail.
  const THEMES = ["auto", "light", "dark"];
  const KEY = "repro-theme";
  let theme = "auto";
  try { theme = localStorage.getItem(KEY) || "auto"; } catch { /* nothing is kept */ }
  const dress = () => {
    if (!THEMES.includes(theme)) theme = "auto";
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = `◐ ${theme}`;
      button.setAttribute("aria-label", `Theme: ${theme}`);
    }
  };
  dress();

  const start = () => {
    const form = document.getElementById("filters");
    const overview = document.getElementById("overview");
    const nothing = document.getElementById("nothing");
    const said = document.querySelector("output");
    const more = document.getElementById("more");
    const fields = ["paper", "verdict", "scale", "q"].map((name) => form.elements[name]);
    const folds = [...document.querySelectorAll("details.table")];
    const boxes = [...document.querySelectorAll("[data-box], [data-paper]")].reverse();
    const items = [...document.querySelectorAll("[data-k]")].map((element) => {
      const paper = element.closest("[data-paper]");
      const box = element.closest("details.table");
      return {
        element, paper: paper.dataset.paper, kind: element.dataset.k,
        verdicts: (element.dataset.v || "").split(" "), scales: (element.dataset.s || "").split(" "),
        heading: [paper.querySelector("h2"), box && box.querySelector("h4")], words: null,
      };
    });
    const normally = new Map(folds.map((fold) => [fold, fold.open]));
    let filtered = false;

    const text = (item) => {
      if (item.words === null) {
        item.words = [...item.heading, item.element].map((e) => e ? e.textContent : "").join(" ").toLowerCase();
      }
      return item.words;
    };

    const fits = (item, want, words) =>
      (!want.paper || item.paper === want.paper) &&
      (!want.verdict || item.verdicts.includes(want.verdict)) &&
      (!want.scale || item.scales.includes(want.scale)) &&
      words.every((word) => text(item).includes(word));

    const wanted = () => Object.fromEntries(fields.map((field) => [field.name, field.value.trim()]));

    const apply = () => {
      const want = wanted();
      const words = want.q.toLowerCase().split(/\s+/).filter(Boolean);
      const active = Object.values(want).some(Boolean);
      const narrow = Boolean(want.verdict || want.scale || want.q);
      const shown = { r: 0, c: 0, g: 0, f: 0 };
      const all = { r: 0, c: 0, g: 0, f: 0 };
      for (const item of items) {
        const fit = fits(item, want, words);
        item.element.hidden = !fit;
        all[item.kind] += 1;
        shown[item.kind] += fit ? 1 : 0;
      }
      // From the inside out: a box without anything to show goes, and one without items where more than papers is asked.
      for (const box of boxes) {
        const paper = box.closest("[data-paper]").dataset.paper;
        const inner = [...box.querySelectorAll("[data-k]")];
        const empty = inner.length ? inner.every((element) => element.hidden) : narrow;
        box.hidden = active && (empty || Boolean(want.paper && paper !== want.paper));
      }
      for (const fold of folds) {
        if (narrow) fold.open = !fold.hidden; else if (filtered) fold.open = normally.get(fold);
      }
      filtered = narrow;
      overview.hidden = active;
      nothing.hidden = !active || shown.r + shown.c + shown.g > 0;
      said.textContent = [["r", "rows"], ["c", "claims"], ["g", "groups of runs"]]
        .map(([kind, words]) => `${active ? `${shown[kind]} of ` : ""}${all[kind]} ${words}`).join(", ");
      root.style.setProperty("--bar", `${document.querySelector("header").offsetHeight}px`);
      return want;
    };

    const keep = () => {
      const want = apply();
      const query = new URLSearchParams(Object.entries(want).filter(([, value]) => value)).toString();
      history.replaceState(null, "", query ? `#?${query}` : location.pathname + location.search);
    };

    const set = (values) => {
      for (const field of fields) {
        const value = values.get(field.name) || "";
        const known = field.tagName !== "SELECT" || [...field.options].some((option) => option.value === value);
        field.value = known ? value : "";
      }
    };

    // What an address names is shown, whatever the filters say: folds open, hidden parts come back.
    const reveal = (name) => {
      const target = document.getElementById(name);
      if (!target) return;
      for (let element = target; element && element !== document.body; element = element.parentElement) {
        element.hidden = false;
        if (element.tagName === "DETAILS") element.open = true;
      }
      target.scrollIntoView();
    };

    const follow = () => {
      const fragment = location.hash.slice(1);
      if (fragment === "" || fragment.startsWith("?")) {
        set(new URLSearchParams(fragment.slice(1)));
        apply();
      } else {
        let name = fragment;
        try { name = decodeURIComponent(fragment); } catch { /* as it stands */ }
        reveal(name);
      }
    };

    let waiting = 0;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(keep, 80); });
    form.addEventListener("reset", () => setTimeout(keep));
    more.addEventListener("click", () => {
      more.setAttribute("aria-expanded", String(form.classList.toggle("open")));
      apply();
    });
    document.getElementById("theme").addEventListener("click", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      try { localStorage.setItem(KEY, theme); } catch { /* nothing is kept */ }
      dress();
    });
    addEventListener("hashchange", follow);
    let folded = [];
    addEventListener("beforeprint", () => {
      folded = [...document.querySelectorAll("details:not([open])")];
      for (const fold of folded) fold.open = true;
    });
    addEventListener("afterprint", () => { for (const fold of folded) fold.open = false; });
    dress();
    apply();
    follow();
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
