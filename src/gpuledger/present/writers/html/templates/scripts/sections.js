// Where on the page we are: the list of sections marks the one in view, and a link to what is folded away opens it.

const startSections = () => {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((seen) => {
    for (const entry of seen) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  document.querySelectorAll("main > section").forEach((section) => watch.observe(section));
  const unfold = () => {
    const target = /^#[\w-]+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    const fold = target && (target.querySelector(":scope > .fold") || target.closest(".fold"));
    if (!fold || fold.open) return;
    fold.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  for (const link of document.querySelectorAll("nav a")) link.addEventListener("click", () => setTimeout(unfold));
  unfold();
};
