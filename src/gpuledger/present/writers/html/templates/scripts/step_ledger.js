// The strip of steps: a step that is chosen with the mouse or with keys shows its ledger.

const swatch = (tone) => {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("class", "swatch");
  picture.setAttribute("width", "12");
  picture.setAttribute("height", "12");
  picture.setAttribute("aria-hidden", "true");
  const layers = [["class", `f-${tone}`], ...(tone.startsWith("idle-") ? [["fill", "url(#hatch)"]] : [])];
  for (const layer of layers) {
    const box = document.createElementNS(space, "rect");
    box.setAttribute("width", "12");
    box.setAttribute("height", "12");
    box.setAttribute(...layer);
    picture.append(box);
  }
  return picture;
};

const stepTable = ({ lines, median_ns: median, median_lines_ns: usual, words }, step, said) => {
  const whole = step.ns.reduce((sum, ns) => sum + ns, 0);
  const table = make("table", { id: "step-ledger", "data-step": step.step }, make("caption", { text: said }));
  const head = table.createTHead().insertRow();
  [words.line, words.time, words.share, words.more].forEach((word, place) => {
    head.append(make("th", { text: word, scope: "col", class: place ? "n" : "" }));
  });
  const body = table.createTBody();
  step.ns.forEach((ns, line) => {
    if (!ns && !usual[line]) return;
    const row = body.insertRow();
    row.dataset.line = lines[line][0];
    const name = make("th", { text: lines[line][2], scope: "row", class: "k" });
    name.prepend(swatch(lines[line][1]));
    row.append(
      name,
      make("td", { text: timeText(ns), class: "n", "data-value": ns }),
      make("td", { text: shareText(ns / whole), class: "n" }),
      make("td", { text: signedTime(ns - usual[line]), class: "n" }),
    );
  });
  table.createTFoot().insertRow().append(
    make("th", { text: words.total, scope: "row" }),
    make("td", { text: timeText(whole), class: "n", "data-value": whole }),
    make("td", { text: shareText(1), class: "n" }),
    make("td", { text: signedTime(whole - median), class: "n" }),
  );
  return table;
};

const startStepLedger = () => {
  const content = jsonOf("steps-json");
  if (!content) return;
  const { median_ns: median, steps, words } = content;
  const cursor = document.getElementById("step-cursor");
  const chosen = document.getElementById("step-chosen");
  const picture = cursor.querySelector("svg.picture");
  const plot = picture.querySelector("svg");
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  mark.setAttribute("class", "mark");
  mark.setAttribute("y", "0");
  mark.setAttribute("height", picture.getAttribute("height"));
  let at = 0;
  const show = (next) => {
    at = Math.max(0, Math.min(steps.length - 1, next));
    const step = steps[at];
    const whole = step.ns.reduce((sum, ns) => sum + ns, 0);
    const note = step.note ? ` (${step.note})` : "";
    const said = `${words.step} ${step.step}: ${timeText(whole)}${note}, ${signedTime(whole - median)} ${words.against}`;
    const wide = 1000 / steps.length;
    mark.setAttribute("x", at * wide);
    mark.setAttribute("width", wide);
    plot.append(mark);
    cursor.setAttribute("aria-valuenow", step.step);
    cursor.setAttribute("aria-valuetext", said);
    chosen.replaceChildren(make("div", { class: "table" }, stepTable(content, step, said)));
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
};
