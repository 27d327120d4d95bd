// Light or dark: the system's choice until the button is pressed. What is drawn by hand is told of a change.

const startTheme = () => {
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const told = () => document.dispatchEvent(new Event("recoloured"));
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const now = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    told();
  });
  dark.addEventListener("change", told);
  matchMedia("print").addEventListener("change", told); // paper is light
};

// Colours of the palette by name, as they are now.
const paletteNow = () => {
  const style = getComputedStyle(document.documentElement);
  const known = new Map();
  return (tone) => {
    if (!known.has(tone)) known.set(tone, style.getPropertyValue(`--${tone}`).trim());
    return known.get(tone);
  };
};

// Whether text on a colour (#rrggbb) is to be light.
const isDeep = (colour) => {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue < 150;
};
