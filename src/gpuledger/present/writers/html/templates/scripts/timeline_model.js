// A timeline's document, unpacked when it is looked at: rows of lanes, each with its items in the order of time.
//
// An item is anything that can be pointed at: an event, a gap, a sample. In a lane no two are at one time, so that both
// `starts` and `ends` ascend. Times are nanoseconds from the run's zero.

const ROW_ORDER = ["idle", "use", "stream", "thread"];

// The first item of a lane, from one on, that ends after an instant.
const firstEndingAfter = (lane, instant, from = 0) => {
  let low = from;
  let high = lane.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.ends[middle] > instant) high = middle;
    else low = middle + 1;
  }
  return low;
};

// The item of a lane at an instant, or the nearest one no further than `tolerance`; -1 where there is none.
const itemAt = (lane, instant, tolerance = 0) => {
  const next = firstEndingAfter(lane, instant);
  let best = -1;
  let nearest = tolerance;
  for (const at of [next - 1, next]) {
    if (at < 0 || at >= lane.ends.length) continue;
    const distance = Math.max(lane.starts[at] - instant, instant - lane.ends[at], 0);
    if (distance <= nearest) {
      best = at;
      nearest = distance;
    }
  }
  return best;
};

// A length of -1: with the fix it is not there.
const eventLanes = (events, row, first, count) => {
  const members = [];
  for (let id = first; id < first + count; id += 1) if (events.length[id] >= 0) (members[events.lane[id]] ||= []).push(id);
  return members.map((ids, depth) => {
    ids.sort((one, other) => events.start[one] - events.start[other]);
    const lane = { kind: "event", row, depth, ids, starts: new Float64Array(ids.length), ends: new Float64Array(ids.length) };
    ids.forEach((id, at) => {
      lane.starts[at] = events.start[id];
      lane.ends[at] = events.start[id] + events.length[id];
      events.laneOf[id] = lane;
      events.placeOf[id] = at;
    });
    return lane;
  });
};

const gapLane = (given, row, from, most) => {
  const starts = unpackedSteps(given.start, given.count).map((ns) => ns + from);
  const length = unpacked(given.length, given.count);
  return {
    kind: "gap", row, depth: 0, starts, ends: starts.map((ns, at) => ns + length[at]),
    trigger: unpacked(given.trigger, given.count), drainer: unpacked(given.drainer, given.count), calls: given.calls,
    cause: unpacked(given.cause, most * given.count), amount: unpacked(given.amount, most * given.count), most,
  };
};

// Times of the replay; what is idle then has no cause.
const openFixed = (model, given, recorded) => {
  const { fixed } = given;
  const { count } = recorded.events;
  const from = given.span[0];
  const events = {
    ...recorded.events,
    start: unpackedSteps(fixed.start, count).map((ns) => ns + from),
    length: unpacked(fixed.length, count),
    lane: unpacked(fixed.lane, count),
    laneOf: new Array(count),
    placeOf: new Int32Array(count),
  };
  const rows = [];
  for (const gaps of fixed.gaps) {
    const starts = unpackedSteps(gaps.start, gaps.count).map((ns) => ns + from);
    const length = unpacked(gaps.length, gaps.count);
    const lane = { kind: "gap", row: gaps.row, depth: 0, starts, ends: starts.map((ns, at) => ns + length[at]), trigger: [] };
    rows.push({ kind: "idle", label: model.rows[gaps.row][1], lanes: [lane] });
  }
  let first = 0;
  for (const [row, some] of given.tracks) {
    const waits = recorded.rows.find((each) => each.number === row)?.waits;
    rows.push({ kind: model.rows[row][0], label: model.rows[row][1], lanes: eventLanes(events, row, first, some), waits });
    first += some;
  }
  const before = recorded.rows.filter(({ kind }) => kind === "idle" || kind === "stream");
  const asRecorded = before.map((row) => ({ ...row, lanes: row.lanes.map((lane) => ({ ...lane })), label: filled(model.words.recorded, { row: row.label }) }));
  const order = (kind) => rows.filter((row) => row.kind === kind);
  return {
    ...recorded, note: fixed.note, core: fixed.core, events,
    span: [recorded.span[0], Math.max(recorded.span[1], fixed.core[1])],
    rows: [...order("idle"), ...order("stream"), ...asRecorded, ...order("thread")],
  };
};

const useLane = (given, row, from) => {
  const starts = unpackedSteps(given.start, given.count).map((ns) => ns + from);
  const ends = starts.map((ns, at) => Math.min(ns + given.period, at + 1 < given.count ? starts[at + 1] : Infinity));
  return { kind: "use", row, depth: 0, starts, ends, values: given.values.map((text) => unpacked(text, given.count)) };
};

// What a call launched: looked for when it is asked, as most calls never are.
const launchedBy = (events, call) => {
  const ids = [];
  for (let id = 0; id < events.count; id += 1) if (events.launch[id] === call) ids.push(id);
  return ids;
};

// Whether a thread does nothing but wait: such rows are the loudest, and say the least. One call to the system that
// lasts all the stretch is a wait too, whatever its name: nobody reads from a file that long.
const onlyWaits = (model, events, first, count, [begin, end]) => {
  const kinds = new Set(events.name.slice(first, first + count).map((name) => model.names[name][3]));
  const isBlocked = count === 1 && kinds.has(model.blocking) && events.length[first] >= end - begin;
  return isBlocked || (kinds.size === 1 && kinds.has(model.waiting));
};

// One stretch: its rows in the order to be shown, and the columns of its events; or the same with the fix, above what
// ran on the GPU as recorded.
const openStretch = (model, number, isFixed = false) => {
  const given = model.stretches[number];
  if (isFixed && given.fixed) return given.fixed.opened ||= openFixed(model, given, openStretch(model, number));
  if (given.opened) return given.opened;
  const count = given.tracks.reduce((sum, [, some]) => sum + some, 0);
  const from = given.span[0];
  const events = {
    count,
    start: unpackedSteps(given.start, count).map((ns) => ns + from),
    length: unpacked(given.length, count),
    lane: unpacked(given.lane, count),
    name: unpacked(given.name, count),
    correlation: unpackedSteps(given.correlation, count),
    launch: unpackedSteps(given.launch, count),
    since: unpacked(given.since, count),
    size: unpacked(given.size, count),
    laneOf: new Array(count),
    placeOf: new Int32Array(count),
  };
  const rows = [];
  const add = (number, lanes, more) => rows.push({ number, kind: model.rows[number][0], label: model.rows[number][1], lanes, ...more });
  const coverOf = (shares) => (shares ? { cover: { span: given.span, shares: unpacked(shares, model.bins) } } : {});
  for (const gaps of given.gaps) add(gaps.row, [gapLane(gaps, gaps.row, from, model.causes_of_gap)], coverOf(gaps.cover));
  for (const use of given.use) add(use.row, [useLane(use, use.row, from)]);
  let first = 0;
  for (const [row, some] of given.tracks) {
    const waits = model.rows[row][0] === "thread" && onlyWaits(model, events, first, some, given.core);
    add(row, eventLanes(events, row, first, some), { waits, ...coverOf(given.cover?.[row]) });
    first += some;
  }
  const told = new Set(given.tracks.map(([row]) => row));
  for (const [row, shares] of Object.entries(given.cover || {})) {
    if (!told.has(Number(row))) add(Number(row), [{ kind: "event", row: Number(row), depth: 0, ids: [], starts: [], ends: [] }], coverOf(shares));
  }
  rows.sort((a, b) => ROW_ORDER.indexOf(a.kind) - ROW_ORDER.indexOf(b.kind));
  given.opened = { number, label: given.label, note: given.note, core: given.core, span: given.span, rows, events };
  return given.opened;
};
