// What every other script uses: making elements, and numbers in the same digits as the rest of the page.

const make = (tag, { text, ...attributes } = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  element.append(...children);
  return element;
};

const jsonOf = (id) => {
  const held = document.getElementById(id);
  return held ? JSON.parse(held.textContent) : null;
};

const filled = (template, parts) => template.replace(/\{(\w+)\}/g, (_, name) => parts[name]);

const figures = (value) => {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 99.95) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  if (size >= 0.9995) return value.toFixed(2);
  return String(Number(value.toPrecision(3)));
};

const scaled = (value, scale) => {
  const [factor, unit] = scale.find(([size]) => Math.abs(value) >= size) || scale[scale.length - 1];
  return `${factor === 1 ? Math.round(value) : figures(value / factor)} ${unit}`;
};
const timeText = (ns) => scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]);
const bytesText = (bytes) => scaled(bytes, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
const shareText = (part) => `${(100 * part).toFixed(1)} %`;
const signedTime = (ns) => (ns ? `${ns < 0 ? "-" : "+"}${timeText(Math.abs(ns))}` : "0");

// An instant as `--time` takes it: seconds with nine decimals.
const instantText = (ns) => {
  const whole = Math.floor(Math.abs(ns) / 1e9);
  const rest = Math.round(Math.abs(ns) - whole * 1e9);
  return `${ns < 0 ? "-" : ""}${whole}.${String(rest).padStart(9, "0")} s`;
};

// All digits of a time: where a ruler begins.
const exactTime = (ns) => {
  const [factor, unit] = Math.abs(ns) >= 1e9 ? [1e9, "s"] : Math.abs(ns) >= 1e6 ? [1e6, "ms"] : [1e3, "us"];
  return `${ns < 0 ? "−" : ""}${Math.abs(ns) / factor} ${unit}`;
};

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
