// What needs a script is started here. Without scripts, all tables and pictures are there.

startTheme();
const linkTimeline = startTimeline(); // it answers while what stands below it is still being read

// What is below starts when the browser has nothing else to do.
const startRest = () => {
  startTables();
  startStepLedger();
  startFlame();
  startBands();
  document.documentElement.dataset.started = ""; // tests and pictures wait for it
};
const startPage = () => {
  startCopying();
  startSections();
  if (linkTimeline) linkTimeline();
  if (window.requestIdleCallback) requestIdleCallback(startRest, { timeout: 500 });
  else setTimeout(startRest, 50);
};
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startPage);
else startPage();
