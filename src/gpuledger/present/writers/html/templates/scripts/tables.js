// Tables that can be sorted, searched, filtered by family, unfolded, and copied as CSV. Without scripts all rows show.

// Numbers by their exact value, largest first; text by the alphabet.
const sortKey = (row, at, isNumber) => {
  const cell = row.cells[at];
  if (!isNumber) return cell.textContent.trim();
  return cell.dataset.value === undefined ? -Infinity : Number(cell.dataset.value);
};

const makeSortable = (table) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    const button = make("button", { type: "button", text: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const isNumber = head.classList.contains("n");
      const before = head.getAttribute("aria-sort");
      const falls = before ? before === "ascending" : isNumber;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [sortKey(row, at, isNumber), row]);
      rows.sort(([a], [b]) => (isNumber ? a - b : a.localeCompare(b)) * (falls ? -1 : 1));
      body.append(...rows.map(([, row]) => row));
    });
  });
};

// A row as CSV: exact numbers, whole names.
const csvRow = (row) => [...row.cells].map((cell) => {
  const whole = cell.querySelector("details.name code");
  const text = cell.dataset.value ?? (whole || cell).textContent.trim();
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",");

const startTools = (box) => {
  const table = box.querySelector("table");
  const tools = box.querySelector(".tools");
  if (!tools) return;
  const rows = [...table.tBodies[0].rows];
  const held = rows.map((row) => row.textContent.toLowerCase());
  const input = tools.querySelector("input");
  const family = tools.querySelector("select");
  const unfold = tools.querySelector(".unfold");
  const output = tools.querySelector("output");
  let folds = Boolean(unfold);
  const show = () => {
    const words = input ? input.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
    const chosen = family ? family.value : "";
    let shown = 0;
    rows.forEach((row, at) => {
      const matches = words.every((word) => held[at].includes(word)) && (!chosen || row.dataset.family === chosen);
      row.hidden = !matches || (folds && !words.length && row.classList.contains("zero"));
      shown += row.hidden ? 0 : 1;
    });
    output.textContent = words.length || chosen ? `${shown} / ${rows.length}` : "";
  };
  tools.hidden = false;
  if (input) input.addEventListener("input", show);
  if (family) family.addEventListener("change", show);
  if (unfold) {
    unfold.addEventListener("click", () => {
      folds = !folds;
      unfold.setAttribute("aria-expanded", String(!folds));
      show();
    });
  }
  copies(tools.querySelector(".csv"), () => [...table.rows].filter((row) => !row.hidden).map(csvRow).join("\n"));
  show();
};

const startTables = () => {
  document.querySelectorAll("table.sorts").forEach(makeSortable);
  document.querySelectorAll(".table").forEach(startTools);
};
