// What needs a script is started here. Without scripts, all tables and pictures are there.

startTheme();
startTables();
startCopying();
startSections();
startStepLedger();
startTimeline();
startFlame();
startBands();
