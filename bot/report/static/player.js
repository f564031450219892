/* The player: steps through the boards of the run as its journal has them.

   The data of the page: `plays` are the ways in which boards were played, `boards` name one of
   them each, `incidents` are places in boards; rows are short, so they have no names in there.
   All texts are set as text. */
const data = (() => {
  const { names, ...tables } = JSON.parse(document.getElementById("run-data").textContent);
  const named = (rows, keys) =>
    rows.map((row) => Object.fromEntries(keys.map((key, place) => [key, row[place]])));
  const plays = named(tables.plays, names.play);
  for (const play of plays) play.steps = named(play.steps, names.step);
  return {
    plays,
    boards: named(tables.boards, names.board),
    incidents: named(tables.incidents, names.incident),
    sittings: named(tables.sittings, names.sitting),
    phases: tables.phases,
  };
})();
const at = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en");
const last = data.boards.length - 1;

const state = { board: 0, step: 0, shown: [], timer: 0 };

const board = () => data.boards[state.board];
const play = () => data.plays[board().play] || { steps: [] };
const steps = () => play().steps;

function garlandAt(step) {
  return step === 0 ? play().garland || [] : steps()[step - 1].garland;
}

function words(garland) {
  return garland.map((pennant) => `${pennant > 0 ? "sun" : "moon"} ${Math.abs(pennant)}`).join(", ");
}

/* How things stand after `step` steps. */
function standing(step) {
  const { move_budget: budget, leaves } = play();
  let [left, kept, score] = [budget, leaves, board().score];
  for (const done of steps().slice(0, step)) {
    left = budget - done.moves_used;
    kept = done.leaves;
    score += done.award;
  }
  return { left, kept, score };
}

function outcome(step) {
  if (step === 0) return "";
  const { award, action } = steps()[step - 1];
  const phase = data.phases[steps()[step - 1].phase];
  if (phase === "cleared") return ` Cleared: ${count.format(award)} points.`;
  if (phase === "retry") return " No moves left: a leaf is spent.";
  if (action === "bank") return " Banked.";
  return phase === "ended" ? " The last leaf is spent: the run is over." : "";
}

function describe() {
  if (board().play < 0) return "The moves of this board are not in this page; the journal has them.";
  const garland = garlandAt(state.step);
  const { left, kept, score } = standing(state.step);
  const done = state.step === 0 ? "Start" : steps()[state.step - 1].action;
  const place = `Step ${state.step} of ${steps().length}, ${done}: `;
  const hang = garland.length ? words(garland) : "no garland that could hang";
  const leaves = `${kept} ${kept === 1 ? "leaf" : "leaves"}`;
  const moves = `${left} ${left === 1 ? "move" : "moves"} left`;
  return `${place}${hang}. ${moves}, ${leaves}, ${count.format(score)} points.${outcome(state.step)}`;
}

function began() {
  const seconds = board().at;
  const sitting = data.sittings.filter((one) => one.at <= seconds).at(-1);
  if (!sitting) return "";
  const moment = new Date(sitting.began + (seconds - sitting.at) * 1000);
  const text = Number.isNaN(moment.valueOf()) ? "" : moment.toISOString();
  return text && `began ${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

function showIncidents() {
  const here = data.incidents.filter(
    (one) => one.board === state.board && one.step === state.step,
  );
  const rows = [...new Set(here.map((one) => one.row))].slice(0, 3);
  at("step-incidents").replaceChildren(
    ...rows.flatMap((row) => {
      const cause = document.querySelector(`#incident-${row} .cause`);
      const kind = document.querySelector(`#incident-${row} .kind`);
      if (!cause) return [];
      const line = document.createElement("span");
      line.textContent = `Here: ${kind.textContent.trim()}: ${cause.textContent} `;
      return [line];
    }),
  );
}

function showSteps() {
  const names = ["start", ...steps().map((step) => step.action)];
  at("steps").replaceChildren(
    ...names.map((name, step) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => go(state.board, step));
      item.append(button);
      return item;
    }),
  );
}

function show(isNewBoard) {
  const { number, template } = board();
  if (isNewBoard) {
    at("board-title").textContent = `Board ${count.format(number)}, template ${template}`;
    at("board-when").textContent = began();
    at("board-number").value = number;
    at("board-slider").value = state.board;
    at("board-slider").setAttribute("aria-valuetext", `board ${number}`);
    showSteps();
  }
  [...at("steps").querySelectorAll("button")].forEach((button, step) => {
    if (step === state.step) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  const garland = garlandAt(state.step);
  const next = steps()[state.step];
  const flip = Number(next?.action.match(/^flip ([0-9])$/)?.[1] ?? 0);
  drawGarland(at("garland"), garland, isNewBoard ? [] : state.shown, flip);
  state.shown = garland;
  at("garland-text").textContent = describe();
  showIncidents();
  const isFirst = state.board === 0;
  const isLast = state.board === last;
  disable("board-back", isFirst && state.step === 0);
  disable("step-back", isFirst && state.step === 0);
  disable("step", isLast && state.step === steps().length);
  disable("board", isLast);
  disable("incident", !incident(1));
  disable("incident-back", !incident(-1));
}

/* A button that is off keeps the focus, so that the keyboard is not lost at the last step. */
function disable(what, isOff) {
  const button = document.querySelector(`[data-do="${what}"]`);
  button.setAttribute("aria-disabled", String(isOff));
}

function go(place, step) {
  const to = Math.max(0, Math.min(last, place));
  const isNewBoard = to !== state.board || state.shown.length === 0;
  state.board = to;
  state.step = Math.max(0, Math.min(steps().length, step));
  show(isNewBoard);
}

function forward() {
  if (state.step < steps().length) go(state.board, state.step + 1);
  else if (state.board < last) go(state.board + 1, 0);
  else pause();
}

function back() {
  if (state.step > 0) go(state.board, state.step - 1);
  else if (state.board > 0) go(state.board - 1, Infinity);
}

/* The next incident in a direction, seen from here. */
function incident(direction) {
  const compare = (one) => one.board - state.board || one.step - state.step;
  return direction > 0
    ? data.incidents.find((one) => compare(one) > 0)
    : data.incidents.findLast((one) => compare(one) < 0);
}

function toIncident(direction) {
  const found = incident(direction);
  if (found) go(found.board, found.step);
}

function pause() {
  clearInterval(state.timer);
  state.timer = 0;
  at("play").textContent = "▶ Play";
  at("garland-text").setAttribute("aria-live", "polite");
}

/* While it plays nothing is announced: it would only speak over itself. */
function start() {
  if (state.board === last && state.step === steps().length) go(0, 0);
  state.timer = setInterval(forward, Number(at("speed").value));
  at("play").textContent = "‖ Pause";
  at("garland-text").setAttribute("aria-live", "off");
}

const toggle = () => (state.timer ? pause() : start());

/* Every deed but playing on its own is a person's, and pauses. */
const DEEDS = {
  "board-back": () => go(state.step > 0 ? state.board : state.board - 1, 0),
  "step-back": back,
  step: forward,
  board: () => go(state.board + 1, 0),
  incident: () => toIncident(1),
  "incident-back": () => toIncident(-1),
  first: () => go(state.board, 0),
  last: () => go(state.board, Infinity),
};

const KEYS = {
  ArrowLeft: "step-back",
  ArrowRight: "step",
  PageUp: "board-back",
  PageDown: "board",
  Home: "first",
  End: "last",
  i: "incident",
  I: "incident-back",
};

function perform(deed) {
  pause();
  DEEDS[deed]();
}

function listen() {
  at("player").addEventListener("click", (event) => {
    const deed = event.target.closest("[data-do]")?.dataset.do;
    if (deed === "play") toggle();
    else if (deed) perform(deed);
  });
  at("stage").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === " ") toggle();
    else if (event.key in KEYS) perform(KEYS[event.key]);
    else return;
    event.preventDefault();
  });
  at("board-slider").addEventListener("input", (event) => {
    pause();
    go(Number(event.target.value), 0);
  });
  at("board-number").addEventListener("change", (event) => {
    pause();
    const place = data.boards.findIndex((one) => one.number >= Number(event.target.value));
    go(place < 0 ? last : place, 0);
  });
  at("speed").addEventListener("change", () => {
    if (state.timer) {
      pause();
      start();
    }
  });
  for (const button of document.querySelectorAll("button.show")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      pause();
      go(Number(button.dataset.board), Number(button.dataset.step));
      at("player").scrollIntoView({ block: "nearest" });
      at("stage").focus();
    });
  }
}

if (data.boards.length > 0) {
  at("player").hidden = false;
  at("board-slider").max = last;
  at("board-number").max = data.boards[last].number;
  listen();
  show(true);
}
