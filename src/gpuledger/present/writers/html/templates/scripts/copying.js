// Buttons that copy a command or a table.

const copies = (button, textOf, source) => {
  const said = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    if (source) getSelection().selectAllChildren(source);
    try {
      await navigator.clipboard.writeText(textOf());
      button.textContent = button.dataset.done;
      setTimeout(() => { button.textContent = said; }, 1500);
    } catch {
      if (source) document.execCommand("copy"); // the clipboard is closed to files on some systems
    }
  });
};

const startCopying = () => {
  for (const button of document.querySelectorAll(".copy")) {
    const code = button.parentElement.querySelector("code");
    copies(button, () => code.textContent, code);
  }
};
