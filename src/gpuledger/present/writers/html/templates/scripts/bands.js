// Bands of a memory curve: a click, or Enter, shows the stack that holds one; the mouse alone shows it as a hint.

const startBands = () => {
  for (const figure of document.querySelectorAll('figure[id^="memory-"], figure[id^="snapshot-"]')) {
    const said = make("pre", { class: "band", role: "status", hidden: "" });
    figure.querySelector("svg.picture").after(said);
    for (const hint of figure.querySelectorAll("path > title")) {
      const band = hint.parentElement;
      const show = () => {
        figure.querySelector("path.chosen")?.classList.remove("chosen");
        band.classList.add("chosen");
        said.textContent = hint.textContent.replaceAll(" < ", "\n  ").replace(/: |：/, "\n  ");
        said.hidden = false;
      };
      band.setAttribute("tabindex", "0");
      band.setAttribute("role", "button");
      band.addEventListener("click", show);
      band.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          show();
        }
      });
    }
  }
};
