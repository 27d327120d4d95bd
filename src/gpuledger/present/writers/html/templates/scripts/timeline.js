// The timeline: puts model, view, painter, card and search together, and answers keys and links. It gives back what
// is to be done once the whole page is there, with the findings and tables that link to it.

const startTimeline = () => {
  const model = jsonOf("timeline-json");
  if (!model) return null;
  const root = document.getElementById("timeline-box");
  const frame = root.querySelector(".tl-frame");
  const scroller = root.querySelector(".tl-scroll");
  const spacer = root.querySelector(".tl-tall");
  const canvas = root.querySelector("canvas");
  const card = root.querySelector(".tl-card");
  const panel = root.querySelector(".tl-panel");
  const note = root.querySelector(".tl-note");
  const live = root.querySelector(".tl-live");
  const select = root.querySelector("select");
  const fix = root.querySelector("input[type=checkbox]");
  const input = root.querySelector("input[type=search]");
  const output = root.querySelector("output");
  const painter = makePainter(canvas, model);
  let stretch = null;
  let lanes = [];
  let height = 0;
  let rows = [];
  let found = null;
  let evidence = null;
  let mark = null;
  let hovered = null;
  let chosen = null;
  let pointer = null;
  let pointed = null;
  let isFoldOpen = false;

  const itemOf = (id) => ({ lane: stretch.events.laneOf[id], at: stretch.events.placeOf[id] });
  const idOf = (item) => (item && item.lane.kind === "event" ? item.lane.ids[item.at] : -1);
  const arrowsOf = (item) => {
    const id = idOf(item);
    if (id < 0) return [];
    if (stretch.events.launch[id] >= 0) return [[itemOf(stretch.events.launch[id]), item]];
    return launchedBy(stretch.events, id).slice(0, 40).map((work) => [item, itemOf(work)]);
  };
  const view = makeView(() => {
    const scroll = scroller.scrollTop;
    if (pointer) pointAt(...pointer);
    const arrows = [...arrowsOf(chosen), ...(hovered && idOf(hovered) !== idOf(chosen) ? arrowsOf(hovered) : [])];
    painter.paint({ stretch, rows, lanes, view, scroll, height, wanted: found || evidence, mark, hovered, chosen, arrows });
  });
  const foldedLabel = (waiting) => {
    const names = new Set(waiting.flatMap((row) => row.lanes.flatMap((lane) => lane.ids.map((id) => model.names[stretch.events.name[id]][0]))));
    return `${isFoldOpen ? "▾" : "▸"} ${filled(model.words.only_wait, { count: waiting.length, calls: [...names].slice(0, 3).join(", ") })}`;
  };

  const measure = () => {
    const laid = layOut(stretch.rows, { isOpen: isFoldOpen, foldedLabel });
    ({ rows, lanes } = laid);
    const tall = AXIS + laid.height;
    height = Math.min(tall, Math.max(260, Math.round(innerHeight * 0.66)));
    frame.style.height = `${height}px`;
    spacer.style.height = `${tall}px`;
    view.width = Math.max(scroller.clientWidth, 50);
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(view.width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${view.width}px`;
    canvas.style.height = `${height}px`;
    view.ask();
  };
  // The step, and as much of what led to it as leaves most of the room to it.
  const whole = () => {
    const [start, end] = stretch.core;
    const begin = Math.max(stretch.span[0], start - (end - start) / 8);
    return [Math.min(begin, hostBegin(stretch.rows, begin, end)), end];
  };
  const open = (number) => {
    if (stretch && stretch.number === number) return;
    stretch = openStretch(model, number, fix.checked);
    fix.parentElement.hidden = !model.stretches[number].fixed;
    hovered = chosen = mark = pointer = pointed = null;
    panel.replaceChildren();
    select.value = String(number);
    note.textContent = stretch.note;
    view.within(stretch.span);
    view.jump(...whole());
    scroller.scrollTop = 0;
    measure();
  };
  const choose = (item) => {
    chosen = item;
    if (!item) {
      panel.replaceChildren();
    } else {
      fillCard(panel, describeItem(model, stretch, item));
      const top = item.lane.top - HEADER;
      const bottom = item.lane.top + item.lane.height + BELOW;
      if (top < scroller.scrollTop) scroller.scrollTop = top;
      else if (bottom > scroller.scrollTop + height - AXIS) scroller.scrollTop = bottom - height + AXIS;
    }
    view.ask();
  };
  // What the replay makes of the step, at the same zoom, above what was recorded.
  fix.addEventListener("change", () => {
    stretch = openStretch(model, stretch.number, fix.checked);
    hovered = mark = pointer = null;
    choose(null);
    note.textContent = stretch.note;
    view.within(stretch.span);
    measure();
  });
  const pick = (left, top) => {
    const lane = top < AXIS ? null : laneAt(lanes, top - AXIS + scroller.scrollTop);
    const at = lane ? itemAt(lane, view.timeAt(left), 3 * ((view.end - view.start) / view.width)) : -1;
    return at < 0 ? null : { lane, at };
  };
  // Told again whenever the view moves, so that the card is never about what is no longer there.
  const pointAt = (left, top) => {
    const item = pick(left, top);
    if (!item) card.hidden = true;
    else {
      const above = AXIS + item.lane.top - scroller.scrollTop;
      shortCard(card, describeItem(model, stretch, item), [model.words.length, model.words.reason, model.words.to_start, ...model.series.map(([name]) => name)]);
      putCard(card, left, [above, above + item.lane.height], { width: view.width, height });
    }
    hovered = item;
  };
  const spanOf = ({ lane, at }) => [lane.starts[at], lane.ends[at]];
  const show = (item) => {
    choose(item);
    const [start, end] = spanOf(item);
    const length = view.end - view.start;
    if (start < view.start || end > view.end || end - start < length / 400) {
      const seen = Math.max((end - start) * 12, Math.min(length, (stretch.span[1] - stretch.span[0]) / 20));
      view.glide((start + end - seen) / 2, (start + end + seen) / 2);
    }
  };

  // Searching.
  const tellHits = () => {
    output.textContent = !found ? "" : found.hits.length
      ? filled(model.words.hits, { at: found.at + 1, count: found.hits.length }) : model.words.no_hits;
  };
  const toHit = (by) => {
    if (!found || !found.hits.length) return;
    found.at = (found.at + by + found.hits.length) % found.hits.length;
    const [number, id] = found.hits[found.at];
    open(number);
    show(itemOf(id));
    tellHits();
  };
  input.addEventListener("input", () => {
    found = searchTimeline(model, input.value, stretch.number);
    toHit(1);
    tellHits();
    view.ask();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") toHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape" && input.value) {
      input.value = "";
      input.dispatchEvent(new Event("input"));
    }
  });

  // Buttons and the list of stretches.
  const acts = {
    previous: () => toHit(-1), next: () => toHit(1), in: () => view.zoom(0.5), out: () => view.zoom(2),
    all: () => view.glide(...whole()),
  };
  for (const button of root.querySelectorAll("button[data-act]")) button.addEventListener("click", acts[button.dataset.act]);
  const list = ({ label }, number) => select.append(make("option", { value: number, text: label }));
  model.stretches.forEach(list);
  select.addEventListener("change", () => open(Number(select.value)));

  // Keys: letters and signs zoom and move, arrows go from item to item.
  const beside = (by) => {
    const lane = chosen ? chosen.lane : lanes.find((each) => each.starts.length && each.of.kind === "stream") || lanes[0];
    const at = chosen ? chosen.at + by : Math.min(firstEndingAfter(lane, view.start), lane.starts.length - 1);
    if (at >= 0 && at < lane.starts.length) show({ lane, at });
  };
  const across = (by) => {
    if (!chosen) return beside(0);
    const [start, end] = spanOf(chosen);
    for (let at = lanes.indexOf(chosen.lane) + by; at >= 0 && at < lanes.length; at += by) {
      const lane = lanes[at];
      const place = itemAt(lane, Math.max(start, Math.min((start + end) / 2, view.end)), Infinity);
      if (place >= 0) return show({ lane, at: place });
    }
    return undefined;
  };
  const keys = {
    w: () => view.zoom(0.7), s: () => view.zoom(1 / 0.7), a: () => view.move(-view.width / 6), d: () => view.move(view.width / 6),
    "+": () => view.zoom(0.7), "=": () => view.zoom(0.7), "-": () => view.zoom(1 / 0.7),
    Home: acts.all, f: () => (chosen ? view.reveal(...spanOf(chosen), 1) : acts.all()),
    ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), ArrowUp: () => across(-1), ArrowDown: () => across(1),
    Enter: () => chosen && view.reveal(...spanOf(chosen), 1),
    l: () => {
      const [pair] = arrowsOf(chosen);
      if (pair) show(idOf(pair[0]) === idOf(chosen) ? pair[1] : pair[0]);
    },
    n: () => toHit(1), N: () => toHit(-1), "/": () => input.focus(), t: () => toggleFold(),
    Escape: () => {
      mark = evidence = pointed = null;
      choose(null);
    },
  };
  frame.addEventListener("keydown", (event) => {
    const act = keys[event.key.length === 1 && event.key !== "N" ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    leave();
    act();
  });

  const leave = () => {
    card.hidden = true;
    hovered = pointer = null;
    view.ask();
  };
  addEventListener("scroll", leave, { passive: true });
  const toggleFold = () => {
    isFoldOpen = !isFoldOpen;
    measure();
  };
  listenToPointers(frame, view, {
    hover: (left, top) => {
      pointer = [left, top];
      view.ask();
    },
    leave,
    choose: (left, top) => {
      frame.focus({ preventScroll: true });
      const row = rows.find((each) => each.kind === "fold" && Math.abs(top - AXIS + scroller.scrollTop - each.top - HEADER / 2) <= HEADER / 2);
      if (row) toggleFold();
      else choose(pick(left, top));
    },
    open: (left, top) => {
      const item = pick(left, top);
      if (item) view.reveal(...spanOf(item), 1);
    },
    scrollBy: (pixels) => { scroller.scrollTop += pixels; },
  });
  scroller.addEventListener("scroll", () => view.ask());

  // Links from findings and tables.
  // What a place is about: the item that fills it exactly, else a gap that fills most of it.
  const itemIn = (start, end) => {
    let best = null;
    let most = (end - start) / 2;
    for (const lane of lanes) {
      for (let at = firstEndingAfter(lane, start); at < lane.starts.length && lane.starts[at] < end; at += 1) {
        if (lane.starts[at] === start && lane.ends[at] === end) return { lane, at };
        const shared = Math.min(lane.ends[at], end) - Math.max(lane.starts[at], start);
        if (lane.kind === "gap" && shared > most) [best, most] = [{ lane, at }, shared];
      }
    }
    return best;
  };
  const evidenceOf = ({ dataset }) => {
    const numbers = (text) => new Set((text || "").split(" ").filter(Boolean).map(Number));
    const given = { triggers: numbers(dataset.triggers), correlations: numbers(dataset.correlations), tone: dataset.tone };
    return given.triggers.size || given.correlations.size || given.tone ? given : null;
  };
  const point = (link) => {
    const [start, end] = [Number(link.dataset.start), Number(link.dataset.end)];
    open(Number(link.dataset.stretch));
    evidence = evidenceOf(link);
    choose(itemIn(start, end));
    mark = [start, end];
    if (end > start) view.reveal(start, end, 0.6);
    else acts.all();
    pointed = link.dataset.what;
  };

  // The address says what is shown: `#at=STRETCH,START,END&finding=CODE&fix`. Nothing where that is how the page opens.
  const placeNow = () => {
    const [start, end] = view.goal();
    const first = view.kept(whole()).map(Math.round);
    if (!stretch.number && !pointed && !fix.checked && start === first[0] && end === first[1]) return location.pathname;
    const finding = pointed ? `&finding=${encodeURIComponent(pointed)}` : "";
    return `#at=${stretch.number},${start},${end}${finding}${fix.checked ? "&fix" : ""}`;
  };
  const goTo = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (location.hash && !asked.has("at") && !asked.has("finding")) return;
    const at = (asked.get("at") || "").split(",").map(Number);
    const code = asked.get("finding");
    const link = code && [...document.querySelectorAll("a[data-stretch]")].find(({ dataset }) => dataset.what === code);
    mark = evidence = pointed = null;
    choose(null);
    if (link) point(link);
    if (at.length === 3 && at.every(Number.isFinite) && model.stretches[at[0]]) {
      open(at[0]);
      if (fix.checked !== asked.has("fix") && model.stretches[at[0]].fixed) fix.click();
      view.jump(at[1], at[2]);
    } else if (!link) {
      if (fix.checked) fix.click();
      open(0);
      view.jump(...whole());
    }
    if (location.hash) root.scrollIntoView({ block: "start" });
  };
  let writing = 0;
  view.settled = () => {
    clearTimeout(writing);
    writing = setTimeout(() => {
      const place = placeNow();
      const isOurs = !location.hash || /^#(at|finding)=/.test(location.hash);
      if (isOurs && place !== (location.hash || location.pathname)) history.replaceState(null, "", place);
    }, 300);
  };
  addEventListener("popstate", goTo);
  copies(root.querySelector(".tl-link"), () => new URL(placeNow(), location.href).href);
  const wire = (link) => {
    const kept = { evidence: null };
    link.addEventListener("pointerenter", () => {
      kept.evidence = evidence;
      evidence = evidenceOf(link) || evidence;
      view.ask();
    });
    link.addEventListener("pointerleave", () => {
      evidence = kept.evidence;
      view.ask();
    });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      if (fix.checked) fix.click();
      point(link);
      kept.evidence = evidence;
      history.pushState(null, "", placeNow());
      live.textContent = filled(model.words.shown_now, { what: link.dataset.what });
      root.scrollIntoView({ behavior: reducedMotion.matches ? "auto" : "smooth", block: "start" });
      frame.focus({ preventScroll: true });
      frame.dataset.shown = link.dataset.what;
    });
  };

  root.hidden = false;
  root.parentElement.querySelector(".needs-script").hidden = true;
  open(0);
  new ResizeObserver(measure).observe(root);
  document.addEventListener("recoloured", () => {
    painter.recolour();
    view.ask();
  });
  return () => {
    for (const other of jsonOf("timeline-others") || []) list(other, model.stretches.push(other) - 1);
    document.querySelectorAll("a[data-stretch]").forEach(wire);
    if (location.hash) goTo();
  };
};
