// Mouse, touch and wheel on the canvas: dragging moves, two fingers or the wheel zoom, a tap chooses.
//
// The wheel belongs to the page until the timeline was clicked or has the focus, or while Ctrl is held, so that
// scrolling past it does not get stuck.

const TAP = 4;

const listenToPointers = (frame, view, { hover, leave, choose, open, scrollBy }) => {
  const pointers = new Map();
  let moved = 0;
  let apart = 0;
  const placeOf = (event) => {
    const box = frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const distance = () => {
    const [[x0], [x1]] = [...pointers.values()];
    return Math.max(Math.abs(x0 - x1), 10);
  };
  frame.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (sideways || event.shiftKey) {
      event.preventDefault();
      view.move(sideways ? event.deltaX : event.deltaY);
      return;
    }
    if (!event.ctrlKey && !event.metaKey && !frame.contains(document.activeElement)) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    view.zoom(1.0022 ** Math.max(-400, Math.min(400, event.deltaY * lines * (event.ctrlKey ? 3 : 1))), placeOf(event)[0]);
  }, { passive: false });
  frame.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pointers.set(event.pointerId, placeOf(event));
    moved = 0;
    if (pointers.size === 2) apart = distance();
  });
  frame.addEventListener("pointermove", (event) => {
    const place = placeOf(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      hover(...place);
      return;
    }
    moved += Math.abs(place[0] - before[0]) + Math.abs(place[1] - before[1]);
    if (moved > TAP && !frame.hasPointerCapture(event.pointerId)) frame.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place);
    if (pointers.size === 2) {
      const now = distance();
      const [[x0], [x1]] = [...pointers.values()];
      view.zoom(apart / now, (x0 + x1) / 2);
      apart = now;
    } else if (moved > TAP) {
      leave();
      view.move(before[0] - place[0], true);
      if (event.pointerType === "mouse") scrollBy(before[1] - place[1]);
    }
  });
  const lift = (event) => {
    const place = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    if (place && moved <= TAP && event.type === "pointerup") choose(...place);
  };
  frame.addEventListener("pointerup", lift);
  frame.addEventListener("pointercancel", lift);
  frame.addEventListener("pointerleave", leave);
  frame.addEventListener("dblclick", (event) => open(...placeOf(event)));
};
