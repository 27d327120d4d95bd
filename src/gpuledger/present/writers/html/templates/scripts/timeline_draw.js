// Draws what is in view. What is narrower than a pixel is drawn once a pixel, so that a frame costs the same however
// many events there are.

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", sans-serif';
const LETTER = 6.2;

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
    if (lane.kind === "gap") return model.triggers[lane.trigger[at]][1];
    return model.names[events.name[lane.ids[at]]][2];
  };
  const textOf = (lane, events, at) => {
    if (lane.kind === "gap") return model.triggers[lane.trigger[at]][0];
    return model.names[events.name[lane.ids[at]]][0];
  };
  const isFaint = (lane, events, at, wanted) => wanted && (lane.kind !== "event" || !wanted.has(events.name[lane.ids[at]]));

  // Boxes are kept by colour and painted together: changing the colour costs more than a box.
  const boxes = new Map();
  const texts = [];
  const box = (lane, events, at, left, width, top, wanted) => {
    const tone = toneOf(lane, events, at);
    const key = `${tone} ${isFaint(lane, events, at, wanted) ? 0.18 : 1} ${lane.kind}`;
    if (!boxes.has(key)) boxes.set(key, []);
    boxes.get(key).push(left, top, width, lane.height - 2);
    drawn += 1;
    return tone;
  };
  const paintBoxes = () => {
    for (const [key, places] of boxes) {
      const [tone, strength, kind] = key.split(" ");
      context.globalAlpha = Number(strength);
      for (const fill of kind === "gap" ? [colour(tone), hatch] : [colour(tone)]) {
        context.fillStyle = fill;
        for (let at = 0; at < places.length; at += 4) {
          context.fillRect(places[at], places[at + 1], places[at + 2], places[at + 3]);
        }
      }
    }
    context.globalAlpha = 1;
    boxes.clear();
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

  const drawLane = (lane, stretch, view, top, wanted) => {
    const nsPerPixel = (view.end - view.start) / view.width;
    const { starts, ends } = lane;
    let at = firstEndingAfter(lane, view.start);
    while (at < starts.length && starts[at] < view.end) {
      const left = (starts[at] - view.start) / nsPerPixel;
      const width = (ends[at] - starts[at]) / nsPerPixel;
      if (width < 1) {
        const pixel = Math.max(Math.floor(left), 0);
        box(lane, stretch.events, at, pixel, 1, top, wanted);
        at = firstEndingAfter(lane, view.start + (pixel + 1) * nsPerPixel, at + 1);
        continue;
      }
      const seen = Math.max(left, -4);
      const apart = width > 3 ? 0.6 : 0;
      const seenWidth = Math.min(left + width, view.width + 4) - seen - apart;
      const tone = box(lane, stretch.events, at, seen, seenWidth, top, wanted);
      if (seenWidth > 24) texts.push([textOf(lane, stretch.events, at), tone, seen, seenWidth, top]);
      at += 1;
    }
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

  const drawAxis = (stretch, view) => {
    context.fillStyle = colour("paper");
    context.fillRect(0, 0, view.width, AXIS);
    const zero = stretch.core[0];
    const length = view.end - view.start;
    const tick = tickLength(length, view.width);
    context.fillStyle = colour("muted");
    context.strokeStyle = colour("rule");
    context.beginPath();
    for (let mark = Math.ceil((view.start - zero) / tick) * tick; mark + zero < view.end; mark += tick) {
      const left = Math.round(view.placeOf(mark + zero)) + 0.5;
      context.moveTo(left, AXIS - 5);
      context.lineTo(left, AXIS);
      context.fillText(mark === 0 ? "0" : `${mark < 0 ? "−" : ""}${timeText(Math.abs(mark))}`, left + 3, AXIS - 8);
    }
    context.moveTo(0, AXIS - 0.5);
    context.lineTo(view.width, AXIS - 0.5);
    context.stroke();
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

  const drawHeaders = (stretch, view, scroll, height) => {
    context.textBaseline = "alphabetic";
    for (const row of stretch.rows) {
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
    paint: ({ stretch, lanes, view, scroll, height, wanted, mark, hovered, chosen, arrows }) => {
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
        else drawLane(lane, stretch, view, top, wanted);
      }
      paintBoxes();
      drawHeaders(stretch, view, scroll, height);
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
