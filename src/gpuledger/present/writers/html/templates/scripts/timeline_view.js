// Which part of a stretch is in view: zooming and moving, smoothly, never out of sight of it.

const LEAST_NS = 100;
const EASE = 0.32;

const makeView = (redraw) => {
  const view = { start: 0, end: 1, width: 1, bounds: [0, 1] };
  let goal = [0, 1];
  let waiting = false;

  const kept = view.kept = ([start, end]) => {
    const [low, high] = view.bounds;
    const length = Math.min(Math.max(end - start, LEAST_NS), high - low);
    const begin = Math.min(Math.max((start + end - length) / 2, low), high - length);
    return [begin, begin + length];
  };
  const frame = () => {
    waiting = false;
    const near = (view.end - view.start) / 2000;
    const left = [goal[0] - view.start, goal[1] - view.end];
    if (reducedMotion.matches || left.every((ns) => Math.abs(ns) <= near)) {
      [view.start, view.end] = goal;
      view.settled();
    } else {
      view.start += left[0] * EASE;
      view.end += left[1] * EASE;
      view.ask();
    }
    redraw();
  };
  view.settled = () => {};
  view.goal = () => goal.map(Math.round);
  view.ask = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(frame);
  };
  view.within = (bounds) => {
    const margin = (bounds[1] - bounds[0]) * 0.01;
    view.bounds = [bounds[0] - margin, bounds[1] + margin];
  };
  // Glide there, or be there at once.
  view.glide = (start, end) => {
    goal = kept([start, end]);
    view.ask();
  };
  view.jump = (start, end) => {
    goal = kept([start, end]);
    [view.start, view.end] = goal;
    view.ask();
  };
  view.timeAt = (left) => view.start + (left / view.width) * (view.end - view.start);
  view.placeOf = (instant) => ((instant - view.start) / (view.end - view.start)) * view.width;
  view.zoom = (factor, left = view.width / 2) => {
    const share = left / view.width;
    const length = (goal[1] - goal[0]) * factor;
    const held = goal[0] + share * (goal[1] - goal[0]);
    view.glide(held - share * length, held + (1 - share) * length);
  };
  view.move = (pixels, isDrag = false) => {
    const by = (pixels / view.width) * (goal[1] - goal[0]);
    (isDrag ? view.jump : view.glide)(goal[0] + by, goal[1] + by);
  };
  // So that a stretch of time, and something around it, can be seen.
  view.reveal = (start, end, around = 0.4) => {
    const more = Math.max((end - start) * around, LEAST_NS);
    view.glide(start - more, end + more);
  };
  return view;
};
