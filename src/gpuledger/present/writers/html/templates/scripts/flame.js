// The flame graph: a tree of time as boxes, the outermost on top, each as wide as its share. Boxes are buttons, so that
// keys reach them: one has the focus's place in the page, arrows go on from there.

const FLAME_ROW = 20;
const FLAME_LEAST = 0.0015;
const FLAME_TONES = ["gemm", "attention", "norm", "moe", "softmax", "reduction", "convolution", "rope"];

const toneOfName = (name) => {
  let sum = 7;
  for (let at = 0; at < name.length; at += 1) sum = (sum * 31 + name.charCodeAt(at)) % 65521;
  return `compute-${FLAME_TONES[sum % FLAME_TONES.length]}`;
};

// Nodes with their children, the largest first.
const openTree = (model, given, side) => {
  const { count } = given;
  const back = unpacked(given.parent, count);
  const name = unpacked(given.name, count);
  const amount = unpacked(given[side], count);
  const root = { name: model.words.whole, tone: "muted", amount: 0, children: [], parent: null };
  const nodes = Array.from({ length: count }, (_, at) => {
    const [text, tone] = model.names[name[at]];
    return { name: text, tone: tone || toneOfName(text), amount: amount[at], children: [], parent: root };
  });
  nodes.forEach((node, at) => {
    const above = at - back[at];
    if (above >= 0) node.parent = nodes[above];
    if (node.amount > 0) node.parent.children.push(node);
    if (above < 0) root.amount += node.amount;
  });
  [root, ...nodes].forEach((node) => node.children.sort((a, b) => b.amount - a.amount));
  return root;
};

const startFlame = () => {
  const model = jsonOf("flame-json");
  if (!model) return;
  const box = document.getElementById("flame-box");
  const frame = box.querySelector(".fl-frame");
  const said = box.querySelector(".fl-said");
  const [kinds, sides] = [box.querySelector(".fl-tree"), box.querySelector(".fl-side")];
  const input = box.querySelector("input");
  const output = box.querySelector("output");
  let root = null;
  let top = null;
  let boxes = [];

  const given = () => model.trees[Number(kinds.value)];
  const amountText = (amount) => (given().counts_samples ? `${amount} ${model.words.samples}` : timeText(amount));
  const tell = (node) => {
    const share = shareText(root.amount ? node.amount / root.amount : 0);
    said.textContent = filled(model.words.of_whole, { name: node.name, amount: amountText(node.amount), share });
  };
  const words = () => input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (node, wanted) => wanted.every((word) => node.name.toLowerCase().includes(word));

  const addBox = (node, left, width, depth) => {
    const button = make("button", { type: "button", role: "treeitem", tabindex: -1, text: width > 0.02 ? node.name : "" });
    button.setAttribute("aria-label", `${node.name}, ${amountText(node.amount)}`);
    button.style.left = `${100 * left}%`;
    button.style.width = `${100 * width}%`;
    button.style.top = `${FLAME_ROW * depth}px`;
    button.style.background = `var(--${node.tone})`;
    boxes.push({ node, button, depth, left });
    return button;
  };
  const draw = (focused) => {
    boxes = [];
    const path = [];
    for (let node = top; node; node = node.parent) path.unshift(node);
    const buttons = path.map((node, depth) => addBox(node, 0, 1, depth));
    const grow = (node, left, depth) => {
      let at = left;
      for (const child of node.children) {
        const width = child.amount / (top.amount || 1);
        if (width < FLAME_LEAST) continue;
        const seen = Math.min(width, 1 - at);
        if (seen <= 0) break;
        buttons.push(addBox(child, at, seen, depth));
        grow(child, at, depth + 1);
        at += width;
      }
    };
    grow(top, 0, path.length);
    const deepest = Math.max(...boxes.map(({ depth }) => depth));
    frame.style.height = `${FLAME_ROW * (deepest + 1) + 4}px`;
    frame.replaceChildren(...buttons);
    const wanted = words();
    let found = 0;
    let covered = 0;
    for (const { node, button } of boxes) button.classList.toggle("faint", wanted.length > 0 && !matches(node, wanted));
    const count = (node, isInside) => {
      const hit = wanted.length > 0 && node !== root && matches(node, wanted);
      if (hit) found += 1;
      if (hit && !isInside) covered += node.amount;
      node.children.forEach((child) => count(child, isInside || hit));
    };
    if (wanted.length) count(root, false);
    const share = shareText(root.amount ? covered / root.amount : 0);
    output.textContent = wanted.length ? filled(model.words.hits, { count: found, share }) : "";
    const start = boxes.find(({ node }) => node === top) || boxes[0];
    start.button.tabIndex = 0;
    if (focused) start.button.focus();
    tell(top);
  };
  const zoom = (node) => {
    top = node;
    draw(true);
  };
  const open = () => {
    const samples = given().counts_samples;
    [...sides.options].forEach((option) => { option.disabled = option.value === "gpu" && samples; });
    if (samples) sides.value = "host";
    root = openTree(model, given(), sides.value);
    top = root;
    draw(false);
  };
  const boxOf = (event) => boxes.find(({ button }) => button === event.target.closest("button"));
  frame.addEventListener("click", (event) => boxOf(event) && zoom(boxOf(event).node));
  frame.addEventListener("pointerover", (event) => event.target !== frame && boxOf(event) && tell(boxOf(event).node));
  frame.addEventListener("focusin", (event) => {
    boxes.forEach(({ button }) => { button.tabIndex = -1; });
    event.target.tabIndex = 0;
    tell(boxOf(event).node);
  });
  frame.addEventListener("keydown", (event) => {
    const here = boxOf(event);
    if (!here) return;
    const row = boxes.filter(({ depth }) => depth === here.depth).sort((a, b) => a.left - b.left);
    const below = boxes.filter(({ node }) => node.parent === here.node).sort((a, b) => a.left - b.left);
    const to = {
      ArrowRight: () => row[row.indexOf(here) + 1],
      ArrowLeft: () => row[row.indexOf(here) - 1],
      ArrowDown: () => below[0],
      ArrowUp: () => boxes.find(({ node }) => node === here.node.parent),
    }[event.key];
    if (event.key === "Escape" && top.parent) zoom(top.parent);
    else if (!to) return;
    event.preventDefault();
    if (to) to()?.button.focus();
  });
  model.trees.forEach(({ label }, at) => kinds.append(make("option", { value: at, text: label })));
  for (const side of ["gpu", "host"]) sides.append(make("option", { value: side, text: model.words[side] }));
  if (!unpacked(model.trees[0].gpu, model.trees[0].count).some((ns) => ns > 0)) sides.value = "host";
  kinds.addEventListener("change", open);
  sides.addEventListener("change", open);
  input.addEventListener("input", () => draw(false));
  box.querySelector(".fl-whole").addEventListener("click", () => zoom(root));
  box.hidden = false;
  const still = box.parentElement.querySelector(".still");
  if (still) still.hidden = true;
  open();
};
