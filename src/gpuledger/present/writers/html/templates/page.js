"use strict";
// What needs a script: sorting, filtering, a step's ledger, copying, light or dark. Without it, all tables are there.
(() => {
  const text = (tag, content, parent) => {
    const made = document.createElement(tag);
    made.textContent = content;
    if (parent) parent.append(made);
    return made;
  };

  // Light or dark: the system's choice until the button is pressed.
  const theme = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });

  // Sorting: a button in each heading. Numbers by their exact value, largest first; text by the alphabet.
  const key = (row, at, number) => {
    const cell = row.cells[at];
    if (!number) return cell.textContent.trim();
    return cell.dataset.value === undefined ? -Infinity : Number(cell.dataset.value);
  };
  for (const table of document.querySelectorAll("table.sorts")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      const button = text("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const number = head.classList.contains("n");
        const before = head.getAttribute("aria-sort");
        const falls = before ? before === "ascending" : number;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falls ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [key(row, at, number), row]);
        rows.sort(([a], [b]) => (number ? a - b : a.localeCompare(b)) * (falls ? -1 : 1));
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // Filtering: rows that hold every word.
  for (const filter of document.querySelectorAll(".filter")) {
    const rows = [...filter.parentElement.querySelector("tbody").rows];
    const held = rows.map((row) => row.textContent.toLowerCase());
    const input = filter.querySelector("input");
    const output = filter.querySelector("output");
    filter.hidden = false;
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, at) => {
        row.hidden = !words.every((word) => held[at].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      output.textContent = words.length ? `${shown} / ${rows.length}` : "";
    });
  }

  // Copying a command.
  for (const button of document.querySelectorAll(".copy")) {
    const said = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      getSelection().selectAllChildren(code);
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = button.dataset.done;
        setTimeout(() => { button.textContent = said; }, 1500);
      } catch {
        document.execCommand("copy");
      }
    });
  }

  // Where on the page we are.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((seen) => {
    for (const each of seen) {
      if (!each.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(each.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  document.querySelectorAll("main > section").forEach((section) => watch.observe(section));

  // A step's ledger.
  const held = document.getElementById("steps-json");
  if (!held) return;
  const { lines, median_ns: median, median_lines_ns: usual, steps, words } = JSON.parse(held.textContent);
  const cursor = document.getElementById("step-cursor");
  const chosen = document.getElementById("step-chosen");
  const picture = cursor.querySelector("svg.picture");
  const plot = picture.querySelector("svg");

  const figures = (value) => {
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size >= 99.95) return value.toFixed(0);
    if (size >= 9.995) return value.toFixed(1);
    if (size >= 0.9995) return value.toFixed(2);
    return String(Number(value.toPrecision(3)));
  };
  const time = (ns) => {
    const [factor, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([f]) => Math.abs(ns) >= f) || [1, "ns"];
    return `${figures(ns / factor)} ${unit}`;
  };
  const signed = (ns) => (ns ? `${ns < 0 ? "-" : "+"}${time(Math.abs(ns))}` : "0");
  const share = (part) => `${(100 * part).toFixed(1)} %`;
  const total = (step) => step.ns.reduce((sum, ns) => sum + ns, 0);
  const swatch = (tone) => {
    const space = "http://www.w3.org/2000/svg";
    const made = document.createElementNS(space, "svg");
    made.setAttribute("class", "swatch");
    made.setAttribute("width", "12");
    made.setAttribute("height", "12");
    made.setAttribute("aria-hidden", "true");
    for (const attribute of tone.startsWith("idle-") ? [["class", `f-${tone}`], ["fill", "url(#hatch)"]] : [["class", `f-${tone}`]]) {
      const box = document.createElementNS(space, "rect");
      box.setAttribute("width", "12");
      box.setAttribute("height", "12");
      box.setAttribute(...attribute);
      made.append(box);
    }
    return made;
  };

  const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  mark.setAttribute("class", "mark");
  mark.setAttribute("y", "0");
  mark.setAttribute("height", picture.getAttribute("height"));
  let at = 0;
  const show = (next) => {
    at = Math.max(0, Math.min(steps.length - 1, next));
    const step = steps[at];
    const whole = total(step);
    const more = whole - median;
    const against = `${signed(more)} ${words.against}`;
    const said = `${words.step} ${step.step}: ${time(whole)}${step.note ? ` (${step.note})` : ""}, ${against}`;
    const wide = 1000 / steps.length;
    mark.setAttribute("x", at * wide);
    mark.setAttribute("width", wide);
    plot.append(mark);
    cursor.setAttribute("aria-valuenow", step.step);
    cursor.setAttribute("aria-valuetext", said);

    const table = document.createElement("table");
    table.id = "step-ledger";
    table.dataset.step = step.step;
    text("caption", said, table);
    const head = table.createTHead().insertRow();
    [words.line, words.time, words.share, words.more].forEach((word, place) => {
      const cell = text("th", word, head);
      cell.scope = "col";
      if (place) cell.className = "n";
    });
    const body = table.createTBody();
    step.ns.forEach((ns, line) => {
      if (!ns && !usual[line]) return;
      const row = body.insertRow();
      row.dataset.line = lines[line][0];
      const name = text("th", lines[line][2], row);
      name.scope = "row";
      name.className = "k";
      name.prepend(swatch(lines[line][1]));
      const amount = text("td", time(ns), row);
      amount.className = "n";
      amount.dataset.value = ns;
      text("td", share(ns / whole), row).className = "n";
      text("td", signed(ns - usual[line]), row).className = "n";
    });
    const foot = table.createTFoot().insertRow();
    text("th", words.total, foot).scope = "row";
    const sum = text("td", time(whole), foot);
    sum.className = "n";
    sum.dataset.value = whole;
    text("td", share(1), foot).className = "n";
    text("td", signed(more), foot).className = "n";
    const box = document.createElement("div");
    box.className = "table";
    box.append(table);
    chosen.replaceChildren(box);
  };

  cursor.tabIndex = 0;
  cursor.setAttribute("role", "slider");
  cursor.setAttribute("aria-label", cursor.dataset.label);
  cursor.setAttribute("aria-valuemin", steps[0].step);
  cursor.setAttribute("aria-valuemax", steps[steps.length - 1].step);
  cursor.setAttribute("aria-valuenow", steps[0].step);
  cursor.setAttribute("aria-valuetext", `${words.step} ${steps[0].step}`);
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    show(Math.floor(((event.clientX - box.left) / box.width) * steps.length));
    cursor.focus({ preventScroll: true });
  });
  cursor.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.round(steps.length / 10));
    const to = {
      ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, PageUp: at + page,
      PageDown: at - page, Home: 0, End: steps.length - 1, Enter: at, " ": at,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  });
})();
