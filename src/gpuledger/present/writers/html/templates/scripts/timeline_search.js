// Finds kernels, calls and ranges by words in their names, in every stretch of the page, the one in view first.

const searchTimeline = (model, text, first) => {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const names = new Set();
  model.names.forEach(([short, whole], number) => {
    const name = `${short} ${whole}`.toLowerCase();
    if (words.every((word) => name.includes(word))) names.add(number);
  });
  const hits = [];
  if (names.size) {
    for (let turn = 0; turn < model.stretches.length; turn += 1) {
      const number = (first + turn) % model.stretches.length;
      const { events } = openStretch(model, number);
      const here = [];
      for (let id = 0; id < events.count; id += 1) if (names.has(events.name[id])) here.push(id);
      here.sort((a, b) => events.start[a] - events.start[b]);
      for (const id of here) hits.push([number, id]);
    }
  }
  return { names, hits, at: -1 };
};
