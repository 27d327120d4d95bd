// What is said of an item: its name, when, how long, where, and what it hangs together with.

const describeItem = (model, stretch, { lane, at }) => {
  const { words } = model;
  const start = lane.starts[at];
  if (lane.kind === "gap" && !lane.calls) {
    return { title: words.idle, kind: lane.of.label, facts: [[words.length, timeText(lane.ends[at] - start)]] };
  }
  const facts = [[words.start, instantText(start)], [words.length, timeText(lane.ends[at] - start)]];
  if (lane.kind === "gap") {
    const call = lane.calls[lane.drainer[at]];
    const places = Array.from({ length: lane.most }, (_, rank) => lane.most * at + rank);
    const causes = places.filter((place) => lane.amount[place] > 0);
    const told = causes.map((place) => `${model.causes[lane.cause[place]][0]} ${timeText(lane.amount[place])}`);
    facts.unshift([words.reason, model.triggers[lane.trigger[at]][0] + (call ? ` (${call})` : "")], [words.cause, told.join(", ")]);
    return { title: words.idle, kind: lane.of.label, facts };
  }
  if (lane.kind === "use") {
    model.series.forEach(([name], series) => facts.push([name, `${lane.values[series][at]} %`]));
    return { title: lane.of.label, kind: "", facts };
  }
  const { events } = stretch;
  const id = lane.ids[at];
  const [name, whole, , kind] = model.names[events.name[id]];
  facts.push([lane.of.kind === "stream" ? words.stream : words.thread, lane.of.label]);
  const call = events.launch[id];
  if (call >= 0) facts.push([words.launched_by, model.names[events.name[call]][0]]);
  if (events.since[id] >= 0) facts.push([words.to_start, timeText(events.since[id])]);
  const launched = launchedBy(events, id);
  if (launched.length) {
    const first = model.names[events.name[launched[0]]][0];
    facts.push([words.launches, launched.length > 1 ? `${first} … (${launched.length})` : first]);
  }
  if (events.size[id] > 0) facts.push([words.size, bytesText(events.size[id])]);
  if (events.correlation[id] > 0) facts.push([words.correlation, String(events.correlation[id])]);
  if (whole) facts.push([words.whole, whole]);
  return { title: name, kind: model.kinds[kind], facts };
};

const fillCard = (card, { title, kind, facts }) => {
  const list = make("dl");
  for (const [term, value] of facts) list.append(make("div", {}, make("dt", { text: term }), make("dd", { text: value })));
  const head = make("p", {}, make("b", { text: title }));
  if (kind) head.append(" ", make("span", { text: kind }));
  card.replaceChildren(head, list);
};

// The few things that a look wants to know: all of it is in the panel, after a click.
const shortCard = (card, { title, kind, facts }, keys) => fillCard(card, { title, kind, facts: facts.filter(([term]) => keys.includes(term)) });

// Below the lane that it is about, or above it where there is no room: never over it.
const putCard = (card, left, lane, box) => {
  card.hidden = false;
  const width = card.offsetWidth;
  const height = card.offsetHeight;
  const [top, bottom] = lane;
  card.style.left = `${Math.max(0, Math.min(left + 12, box.width - width))}px`;
  card.style.top = `${bottom + 4 + height > box.height && top - 4 - height >= 0 ? top - 4 - height : bottom + 4}px`;
};
