// Where rows and lanes of a stretch lie, from the top; and what lies at a place.

const AXIS = 22;
const HEADER = 16;
const LANE = 17;
const STREAM_LANE = 26; // so that a low share can be seen
const USE_LANE = 44;
const BELOW = 6;

// Threads that only wait take one line together until they are opened.
const layOut = (rows, { isOpen, foldedLabel }) => {
  let top = 0;
  const lanes = [];
  const shown = rows.filter((row) => !row.waits);
  const waiting = rows.filter((row) => row.waits);
  const fold = waiting.length ? [{ kind: "fold", label: foldedLabel(waiting), lanes: [] }] : [];
  const laid = [...shown, ...fold, ...(isOpen ? waiting : [])];
  for (const row of laid) {
    row.top = top;
    top += HEADER;
    for (const lane of row.lanes) {
      lane.top = top;
      lane.height = lane.kind === "use" ? USE_LANE : row.kind === "stream" && row.lanes.length === 1 ? STREAM_LANE : LANE;
      lane.of = row;
      top += lane.height;
      lanes.push(lane);
    }
    top += BELOW;
  }
  return { rows: laid, lanes, height: top };
};

// From when to show host threads: those that launched all of it before have nothing in view, and a blank field says nothing.
const hostBegin = (rows, begin, end) => {
  const lanes = rows.filter((row) => row.kind === "thread").flatMap((row) => row.lanes);
  const isSeen = lanes.some((lane) => lane.starts.some((start, at) => start < end && lane.ends[at] > begin));
  return isSeen ? begin : lanes.reduce((first, lane) => Math.min(first, lane.starts[0] ?? first), begin);
};

const laneAt = (lanes, top) => lanes.find((lane) => top >= lane.top && top < lane.top + lane.height);
