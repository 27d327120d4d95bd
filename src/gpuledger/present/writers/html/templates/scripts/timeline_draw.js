// Draws what is in view. What is narrower than a pixel or two is drawn once a pixel, as high as it fills that pixel.

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", sans-serif';
const LETTER = 6.2;
const NARROW = 2; // pixels
const LEAST_COLUMN = 0.5; // of anything that is there
const LEAST_HIT = 5; // of what is searched for
const COVER_WHOLE = 200; // as `scripted.py` writes shares

const tickLength = (length, width) => {
  const least = (length * 90) / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((tick) => tick >= least);
};

const makePainter = (canvas, model) => {
  const context = canvas.getContext("2d");
  let colour = paletteNow();
  let hatch = null;
  let drawn = 0;

  const rehatch = () => {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour("paper");
    pen.globalAlpha = 0.45;
    pen.lineWidth = 1.4;
    for (const by of [-6, 0, 6]) {
      pen.beginPath();
      pen.moveTo(by, 6);
      pen.lineTo(by + 6, 0);
      pen.stroke();
    }
    hatch = context.createPattern(tile, "repeat");
  };

  const toneOf = (lane, events, at) => {
    if (lane.kind === "gap") return model.triggers[lane.trigger[at]]?.[1] || "muted";
    return model.names[events.name[lane.ids[at]]][2];
  };
  const textOf = (lane, events, at) => {
    if (lane.kind === "gap") return model.triggers[lane.trigger[at]]?.[0] || model.words.idle;
    return model.names[events.name[lane.ids[at]]][0];
  };
  // Whether an item is none of those looked for: names that were searched, or what proves a finding.
  const isFaint = (lane, events, at, wanted) => {
    if (!wanted) return false;
    if (lane.kind !== "event") return !wanted.triggers?.has(lane.trigger?.[at]);
    const id = lane.ids[at];
    return !(wanted.names?.has(events.name[id]) || wanted.correlations?.has(events.correlation[id])
      || (wanted.tone && model.names[events.name[id]][2] === wanted.tone));
  };

  // Boxes are kept by colour and painted together: changing the colour costs more than a box.
  const boxes = new Map();
  const texts = [];
  let last = {};
  const boxesLike = (tone, faint, kind) => {
    if (last.tone === tone && last.faint === faint && last.kind === kind) return last.places;
    const key = `${tone} ${faint} ${kind}`;
    if (!boxes.has(key)) boxes.set(key, { tone, faint, kind, places: [] });
    last = boxes.get(key);
    return last.places;
  };
  const box = (lane, events, at, left, width, top, wanted, tall = lane.height - 2) => {
    const tone = toneOf(lane, events, at);
    boxesLike(tone, isFaint(lane, events, at, wanted), lane.kind).push(left, top + lane.height - 2 - tall, width, tall);
    drawn += 1;
    return tone;
  };
  const paintBoxes = () => {
    for (const { tone, faint, kind, places } of boxes.values()) {
      context.globalAlpha = faint ? 0.18 : 1;
      for (const fill of kind === "gap" ? [colour(tone), hatch] : [colour(tone)]) {
        context.fillStyle = fill;
        for (let at = 0; at < places.length; at += 4) {
          context.fillRect(places[at], places[at + 1], places[at + 2], places[at + 3]);
        }
      }
    }
    context.globalAlpha = 1;
    boxes.clear();
    last = {};
    for (const text of texts) boxText(...text);
    texts.length = 0;
  };

  const boxText = (text, tone, left, width, top) => {
    const shownLeft = Math.max(left, 0) + 3;
    const room = Math.floor((left + width - shownLeft - 2) / LETTER);
    if (room < 3) return;
    context.fillStyle = isDeep(colour(tone)) ? "#ffffff" : "#12161b";
    context.fillText(text.length <= room ? text : `${text.slice(0, room - 1)}…`, shownLeft, top + 11.5);
  };

  // Items narrower than two pixels are gathered by pixel: a column as high as the share of the pixel that they fill, in the
  // colour of the one with the most time there. So the ink of a stretch is its time, however far out the view is.
  const drawLane = (lane, stretch, view, top, wanted) => {
    const nsPerPixel = (view.end - view.start) / view.width;
    const { starts, ends } = lane;
    const { events } = stretch;
    let pixel = -1;
    let share = 0;
    let shown = -1;
    let most = 0;
    const finish = () => {
      if (shown >= 0) {
        const least = wanted && !isFaint(lane, events, shown, wanted) ? LEAST_HIT : LEAST_COLUMN;
        box(lane, events, shown, pixel, 1, top, wanted, Math.max(Math.min(share, 1) * (lane.height - 2), least));
      }
      share = most = 0;
      shown = -1;
    };
    for (let at = firstEndingAfter(lane, view.start); at < starts.length && starts[at] < view.end; at += 1) {
      const left = (starts[at] - view.start) / nsPerPixel;
      const right = (ends[at] - view.start) / nsPerPixel;
      if (right - left >= NARROW) {
        const seen = Math.max(left, -4);
        const apart = right - left > 12 ? 0.6 : 0;
        const seenWidth = Math.min(right, view.width + 4) - seen - apart;
        const tone = box(lane, events, at, seen, seenWidth, top, wanted);
        if (seenWidth > 24) texts.push([textOf(lane, events, at), tone, seen, seenWidth, top + (lane.height - LANE) / 2]);
        continue;
      }
      for (let from = Math.max(left, 0), first = true; first || from < right; first = false) {
        const here = Math.floor(from);
        if (here !== pixel) finish();
        pixel = here;
        const part = Math.min(right, here + 1) - from;
        const weight = part + (wanted && !isFaint(lane, events, at, wanted) ? 2 : 0);
        share += part;
        if (shown < 0 || weight > most) [shown, most] = [at, weight];
        from = here + 1;
      }
    }
    finish();
  };

  // How much of each part of a row is filled, where not all of its events are in the page.
  const drawCover = ({ span, shares }, lane, view, top) => {
    const length = (span[1] - span[0]) / shares.length;
    context.fillStyle = colour("muted");
    context.globalAlpha = 0.55;
    for (let at = 0; at < shares.length; at += 1) {
      const left = view.placeOf(span[0] + at * length);
      const right = view.placeOf(span[0] + (at + 1) * length);
      const tall = (shares[at] / COVER_WHOLE) * (lane.height - 2);
      if (tall && right > 0 && left < view.width) context.fillRect(left, top + lane.height - 2 - tall, right - left, tall);
    }
    context.globalAlpha = 1;
  };

  const drawUse = (lane, view, top) => {
    const nsPerPixel = (view.end - view.start) / view.width;
    const height = lane.height - 4;
    context.strokeStyle = colour("rule");
    context.strokeRect(-1, top + 0.5, view.width + 2, height);
    lane.values.forEach((values, series) => {
      context.beginPath();
      let pixel = -2;
      for (let at = firstEndingAfter(lane, view.start); at < values.length && lane.starts[at] < view.end; at += 1) {
        const left = (lane.starts[at] - view.start) / nsPerPixel;
        const right = (lane.ends[at] - view.start) / nsPerPixel;
        if (right < pixel + 1) continue;
        const level = top + height - (Math.min(values[at], 100) / 100) * height + 0.5;
        if (pixel === -2) context.moveTo(left, level);
        else context.lineTo(left, level);
        context.lineTo(right, level);
        pixel = right;
        drawn += 1;
      }
      context.strokeStyle = colour(model.series[series][1]);
      context.lineWidth = 1.4;
      context.stroke();
    });
    context.lineWidth = 1;
  };

  // Ticks count from an instant before the view, round for its length, so that three digits tell them apart. Where that
  // is not the stretch's own beginning, it stands at the left.
  const drawAxis = (stretch, view) => {
    context.fillStyle = colour("paper");
    context.fillRect(0, 0, view.width, AXIS);
    const length = view.end - view.start;
    const round = 10 ** Math.ceil(Math.log10(Math.max(length, 1)));
    const from = view.start - stretch.core[0];
    const base = Math.abs(from) < 5 * length ? 0 : Math.floor(from / round) * round;
    const tick = tickLength(length, view.width);
    const zero = stretch.core[0] + base;
    const said = base ? exactTime(base) : "";
    const free = said ? said.length * LETTER + 12 : 0;
    const labels = said ? [said] : [];
    context.fillStyle = colour("muted");
    context.strokeStyle = colour("rule");
    if (said) context.fillText(said, 4, AXIS - 8);
    context.beginPath();
    for (let mark = Math.ceil((view.start - zero) / tick) * tick; mark + zero < view.end; mark += tick) {
      const left = Math.round(view.placeOf(mark + zero)) + 0.5;
      if (left < free) continue;
      const sign = mark < 0 ? "−" : said ? "+" : "";
      const label = mark === 0 ? "0" : `${sign}${timeText(Math.abs(mark))}`;
      labels.push(label);
      context.moveTo(left, AXIS - 5);
      context.lineTo(left, AXIS);
      context.fillText(label, left + 3, AXIS - 8);
    }
    context.moveTo(0, AXIS - 0.5);
    context.lineTo(view.width, AXIS - 0.5);
    context.stroke();
    canvas.dataset.ticks = labels.join(" | ");
  };

  const drawOutside = (stretch, view, height) => {
    context.fillStyle = colour("panel");
    const [begin, end] = stretch.core.map((instant) => view.placeOf(instant));
    if (begin > 0) context.fillRect(0, AXIS, begin, height);
    if (end < view.width) context.fillRect(end, AXIS, view.width - end, height);
  };

  const drawMark = (mark, view, height) => {
    const [left, right] = mark.map((instant) => view.placeOf(instant));
    const width = Math.max(right - left, 2);
    context.globalAlpha = 0.13;
    context.fillStyle = colour("accent");
    context.fillRect(left, AXIS, width, height);
    context.globalAlpha = 1;
    context.strokeStyle = colour("accent");
    context.strokeRect(left + 0.5, AXIS + 0.5, width, height - 2);
  };

  const outline = (item, view, scroll, thick) => {
    const { lane, at } = item;
    const left = view.placeOf(lane.starts[at]);
    const width = Math.max(view.placeOf(lane.ends[at]) - left, 2);
    context.strokeStyle = colour("ink");
    context.lineWidth = thick ? 2 : 1;
    context.strokeRect(left, AXIS + lane.top - scroll, width, lane.height - 2);
    context.lineWidth = 1;
  };

  const arrow = (from, to, view, scroll) => {
    const x0 = view.placeOf(from.lane.starts[from.at]);
    const x1 = view.placeOf(to.lane.starts[to.at]);
    const y0 = AXIS + from.lane.top - scroll + (from.lane.top > to.lane.top ? 0 : from.lane.height - 2);
    const y1 = AXIS + to.lane.top - scroll + (from.lane.top > to.lane.top ? to.lane.height - 2 : 0);
    const up = Math.sign(y1 - y0) * 5;
    context.strokeStyle = context.fillStyle = colour("accent");
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1 - up);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 4, y1 - 1.6 * up);
    context.lineTo(x1 + 4, y1 - 1.6 * up);
    context.fill();
    context.lineWidth = 1;
  };

  const drawHeaders = (rows, scroll, height) => {
    context.textBaseline = "alphabetic";
    for (const row of rows) {
      const top = AXIS + row.top - scroll;
      if (top > height || top < -HEADER) continue;
      context.fillStyle = colour("muted");
      context.fillText(row.label, 4, top + 12);
      if (row.kind !== "use") continue;
      let left = 14 + row.label.length * LETTER;
      for (const [name, tone] of model.series) {
        context.fillStyle = colour(tone);
        context.fillRect(left, top + 7, 12, 3);
        context.fillText(name, left + 16, top + 12);
        left += 28 + name.length * 7;
      }
    }
  };

  return {
    recolour: () => {
      colour = paletteNow();
      hatch = null;
    },
    paint: ({ stretch, rows, lanes, view, scroll, height, wanted, mark, hovered, chosen, arrows }) => {
      const begun = performance.now();
      const scale = devicePixelRatio || 1;
      drawn = 0;
      if (!hatch) rehatch();
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.font = FONT;
      context.fillStyle = colour("paper");
      context.fillRect(0, 0, view.width, height);
      drawOutside(stretch, view, height);
      for (const lane of lanes) {
        const top = AXIS + lane.top - scroll;
        if (top > height || top + lane.height < AXIS) continue;
        if (lane.kind === "use") drawUse(lane, view, top);
        else {
          if (lane.of.cover && !lane.depth) drawCover(lane.of.cover, lane, view, top);
          drawLane(lane, stretch, view, top, wanted);
        }
      }
      paintBoxes();
      drawHeaders(rows, scroll, height);
      if (mark) drawMark(mark, view, height - AXIS);
      if (hovered) outline(hovered, view, scroll, false);
      if (chosen) outline(chosen, view, scroll, true);
      for (const [from, to] of arrows) arrow(from, to, view, scroll);
      drawAxis(stretch, view);
      canvas.dataset.drawn = drawn;
      canvas.dataset.ms = (performance.now() - begun).toFixed(2);
    },
  };
};
