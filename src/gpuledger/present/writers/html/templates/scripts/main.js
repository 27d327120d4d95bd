// What needs a script is started here. Without scripts, all tables and pictures are there.

startTheme();
startCopying();
startSections();
startTimeline();

// The first key is for the timeline; what is below it starts when the browser has nothing else to do.
const startRest = () => {
  startTables();
  startStepLedger();
  startFlame();
  startBands();
  document.documentElement.dataset.started = ""; // tests and pictures wait for it
};
if (window.requestIdleCallback) requestIdleCallback(startRest, { timeout: 500 });
else setTimeout(startRest, 50);
